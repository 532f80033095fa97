// SPDX-License-Identifier: Apache-2.0
// The Send of the peer that is arriving, piece by piece, and the receive that it fills.
//
// A Send without a receive is held: it stays in the socket or ring, and so does everything behind it, until a
// receive is posted, or until it has waited too long. A Send whose receive was flushed, or whose sender gave
// it up, is dropped to its last piece.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>
#include <utility>

#include "base/clock.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/transfer/placement.h"

namespace nd::provider::soft {

class ArrivingSend {
 public:
  explicit ArrivingSend(SoftQueuePair& queue_pair) : queue_pair_(queue_pair) {}

  // A piece of it arrived, and more must follow.
  bool incomplete() const { return incomplete_; }
  // The bytes of its pieces so far, placed or dropped.
  std::uint32_t arrived() const { return incomplete_ ? arrived_ : 0; }
  bool held() const { return held_; }
  // Nothing of a former Send is left, and a new one may take a receive.
  bool idle() const { return !incomplete_ && !held_ && !given_up_; }
  // Returns true when the sender has abandoned the held Send and all later ones.
  bool given_up() const { return given_up_; }
  // The time at which a held Send has waited too long.
  Time deadline() const { return deadline_; }

  // --- one piece: Skip, else Find, then Drop, Hold or Open, Place, Complete

  // Takes a piece of a Send that is being dropped. Returns false for any other piece.
  bool Skip(std::uint32_t size, bool last) {
    if (!incomplete_ || !dropping_) return false;
    arrived_ += size;
    if (last) incomplete_ = dropping_ = false;
    return true;
  }
  // The piece begins a Send that must not take a receive any more.
  bool MustDrop() const { return given_up_ && !incomplete_; }
  // Null when no receive is posted.
  ReceiveRequest* Find() { return queue_pair_.CurrentReceive(); }
  // Begins to drop the Send whose first piece this is.
  void Drop(std::uint32_t size, bool last) {
    Release();
    incomplete_ = dropping_ = !last;
    arrived_ = size;
  }
  // Returns true when it was not held already.
  bool Hold() {
    if (held_) return false;
    held_ = true;
    const Duration patience = queue_pair_.receive_patience();
    const Time now = std::chrono::steady_clock::now();
    deadline_ = patience < Time::max() - now ? now + patience : Time::max();
    return true;
  }
  void Open(const ReceiveRequest& receive) {
    Release();
    if (incomplete_) return;
    incomplete_ = true;
    arrived_ = 0;
    sink_ = SgeCursor(receive.list);
  }
  bool Fits(const ReceiveRequest& receive, std::uint32_t size) const {
    return size <= receive.list.length - arrived_;
  }
  // Completes the receive of a Send that is longer, and ends the connection.
  void RefuseLength() { Refuse(StatusCode::kBufferOverflow, EndCode::kTooLong); }
  // Places a piece that fits. Returns false when memory of this side cannot take it.
  template <typename Copy>
  bool Place(std::uint32_t size, Copy&& copy) {
    if (!PlaceInto(queue_pair_, sink_, size, kAllowLocalWrite, std::forward<Copy>(copy))) return false;
    arrived_ += size;
    return true;
  }
  // Completes the receive whose memory cannot take the Send, and ends the connection.
  void RefuseMemory() { Refuse(StatusCode::kAccessViolation, EndCode::kReceiveFailed); }
  // The last piece was placed.
  void Complete(bool solicited, std::uint8_t flags = 0, std::uint32_t immediate = 0) {
    incomplete_ = false;
    queue_pair_.CompleteReceive(StatusCode::kSuccess, arrived_, solicited, flags, immediate);
  }
  // The immediate data of a Write of `bytes` bytes: takes the receive that Find() returned, without a piece.
  void CompleteWrite(std::uint32_t bytes, std::uint32_t immediate, bool solicited) {
    Release();
    queue_pair_.CompleteReceive(StatusCode::kSuccess, bytes, solicited,
                                kCompletionImmediate | kCompletionOfWrite, immediate);
  }

  // --- other events

  // The receive of the incomplete Send was flushed.
  void OnReceiveFlushed() {
    if (incomplete_) dropping_ = true;
  }
  // The sender abandoned the incomplete Send, and may send it again from its start.
  void OnAbandoned() { incomplete_ = dropping_ = false; }
  // The sender does not wait for its Sends any more.
  void GiveUp() {
    given_up_ = true;
    Release();
  }
  // Ends the connection when the held Send has waited too long.
  void OnDeadline(Time now) {
    if (now < deadline_) return;
    deadline_ = Time::max();
    if (held_ && queue_pair_.live()) queue_pair_.EndConnection(EndCode::kNoReceive);
  }

 private:
  void Release() {
    held_ = false;
    deadline_ = Time::max();
  }
  void Refuse(StatusCode status, EndCode code) {
    queue_pair_.CompleteReceive(status, 0, false);
    queue_pair_.EndConnection(code);
  }

  SoftQueuePair& queue_pair_;
  bool incomplete_ = false, dropping_ = false, held_ = false, given_up_ = false;
  std::uint32_t arrived_ = 0;
  SgeCursor sink_;
  Time deadline_ = Time::max();
};

}  // namespace nd::provider::soft
