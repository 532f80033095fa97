// SPDX-License-Identifier: Apache-2.0
// The receiving half of a same-host connection: every record is copied once, checked, and then acted upon.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>

#include "provider/soft/qp/shm/shared_state.h"
#include "provider/soft/qp/transfer/arriving_send.h"

namespace nd::provider::soft {

class ShmReceiver {
 public:
  explicit ShmReceiver(ShmState& state) : state_(state), arriving_(state.queue_pair) {}

  // Handles published records within a budget. Returns true when something changed. The queue pair may not be
  // live afterwards.
  bool Consume();
  // The common case of Consume(): records that are a whole Send with a receive. *others: another record
  // waits.
  bool ConsumeWhole(bool* others);
  // Otherwise Consume() has nothing to do.
  bool HasRecord() const { return state_.rings.PublishedAt(head_) != nullptr; }
  // A record waits that Consume() would take.
  bool RecordWaits() const;
  // Returns true when a record behind the held Send was not examined yet.
  bool RecordWaitsBehindHeldSend() const;
  // The number of records that were consumed.
  std::uint32_t position() const { return head_; }
  // The goodbye of the peer was read.
  bool peer_goodbye() const { return peer_goodbye_; }
  // The Send that is arriving, for its events and its deadline.
  ArrivingSend& arriving() { return arriving_; }
  const ArrivingSend& arriving() const { return arriving_; }

 private:
  // Takes the Read Responses behind the held Send. Returns true when a goodbye follows it.
  bool LookBehindHeldSend();
  const std::byte* PeerBytes(std::uint64_t buffer, std::uint64_t place, std::uint32_t length);
  // Checks that the bytes of the record are inside the data area. Ends the connection otherwise.
  bool FitsItsPlace(const Slot& record);
  // The common case: a Send in one record, and a receive for it. Returns false, and has done nothing, for any
  // other record, and for one that fails a check. The slot may change meanwhile.
  bool ConsumeAtOnce(const Slot& slot);
  void Pass() {
    ++head_;
    if (looked_ != 0) --looked_;
  }
  // They return false when the record must stay in the ring, or the connection ended.
  bool ConsumeOne(const Slot& record);
  bool ConsumeSend(const Slot& record);
  bool ConsumeWrite(const Slot& record);
  bool ConsumeImmediate(const Slot& record);
  bool ConsumeReadRequest(const Slot& record);
  bool ConsumeAtomic(const Slot& record);
  bool ConsumeReadResponse(const Slot& record);
  // Ends the connection.
  bool Violation();

  ShmState& state_;
  ArrivingSend arriving_;
  std::uint32_t head_ = 0;
  std::uint32_t looked_ = 0;  // From head_ on, so many records have no goodbye and no unread answer.
  bool peer_goodbye_ = false;
};

}  // namespace nd::provider::soft
