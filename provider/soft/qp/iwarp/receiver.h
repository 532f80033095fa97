// SPDX-License-Identifier: Apache-2.0
// The receiving half of an iWARP connection: every segment is checked before a byte of it is placed.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "provider/soft/qp/iwarp/shared_state.h"
#include "provider/soft/qp/transfer/arriving_send.h"
#include "provider/soft/wire/bytes.h"
#include "provider/soft/wire/fault.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {

class IwarpReceiver {
 public:
  IwarpReceiver(IwarpState& state, const HandOffRecord& record);

  // Reads the socket within a budget and handles every complete frame. Returns true when something changed.
  // The queue pair may not be live afterwards.
  bool Receive();
  // False while a Send is held and the buffer is full or has the end of the stream.
  bool CanReceive() const;
  // The Send that is arriving, for its events and its deadline.
  ArrivingSend& arriving() { return arriving_; }
  const ArrivingSend& arriving() const { return arriving_; }
  // The Terminate for a connection that this side ends: with the offending segment, if one is known.
  const wire::Terminate& LastWords(EndCode code);
  // Nothing of this object is used afterwards.
  std::unique_ptr<std::byte[]> TakeBuffer() { return std::move(buffer_); }

 private:
  // --- receiver.cc: the stream
  void MakeRoom();
  bool SenderGaveUp() const;
  bool WasReset() const;
  void EndOfStream();
  void Lost(int error);
  void Parse();
  void TakeAnswersBehindHeldSend();
  // --- receive_segment.cc: one segment. They return false when it must stay in the buffer, or the connection
  // ended.
  bool Handle(wire::ByteSpan ulpdu);
  bool HandleSend(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleImmediate(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleWrite(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleReport(std::uint64_t count, wire::ByteSpan ulpdu);
  bool HandleReadRequest(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleReadResponse(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleAtomicRequest(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleAtomicResponse(const wire::Segment& segment, wire::ByteSpan ulpdu);
  // The oldest Read is answered.
  void FinishRead();
  void HandleTerminate(const wire::Segment& segment);
  // Ends the connection.
  bool Violation(const wire::Fault& fault, wire::ByteSpan ulpdu);

  IwarpState& state_;
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t begin_ = 0, end_ = 0;  // Of the bytes that are not handled.
  std::size_t looked_to_ = 0;        // While a Send is held: there is no unread answer before this place.
  bool end_read_ = false;            // The socket reported the end of the stream.
  int lost_error_ = 0;               // The socket failed behind a held Send.
  std::uint32_t send_msn_, read_msn_;
  std::uint32_t atomic_response_msn_ = 1;
  ArrivingSend arriving_;
  std::optional<wire::Terminate> last_words_;
};

}  // namespace nd::provider::soft
