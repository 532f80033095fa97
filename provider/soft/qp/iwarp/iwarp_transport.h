// SPDX-License-Identifier: Apache-2.0
// A connection over TCP that speaks iWARP: MPA framing, DDP, RDMAP (RFC 5044, 5041, 5040).
#pragma once

#include <memory>

#include "provider/hand_off.h"
#include "provider/soft/qp/iwarp/receiver.h"
#include "provider/soft/qp/iwarp/sender.h"
#include "provider/soft/qp/iwarp/shared_state.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/transport.h"

namespace nd::provider::soft {

// Checks the record and the socket. INVALID_PARAMETER; the descriptor stays in `hand_off` then.
Result<std::unique_ptr<Transport>> MakeIwarpTransport(SoftQueuePair& queue_pair, HandOff& hand_off);

class IwarpTransport final : public Transport {
 public:
  IwarpTransport(SoftQueuePair& queue_pair, const HandOffRecord& record, std::uint32_t max_ulpdu,
                 UniqueFd socket);

  int fd() const override { return state_.socket.get(); }
  void Transmit() override;
  bool Progress(bool look_at_fd) override;
  bool Arm() override;
  bool ArmedFromStart() override { return !Arm(); }
  Interest Settle(bool, bool) override { return interest(); }
  Interest interest() const override;
  void OnReceivePosted() override;
  void OnFlushInitiator() override { sender_.OnFlush(); }
  void OnFlushReceive() override { receiver_.arriving().OnReceiveFlushed(); }
  void SayGoodbye() override;
  bool finished() const override { return state_.goodbye_sent; }
  void SayTerminate(EndCode code) override;
  Status cause() const override { return state_.cause; }
  bool PeerTouches(std::uint32_t) override {
    return false;
  }  // Only this process accesses memory, under the lock.
  void OnDeadline(Time now) override { receiver_.arriving().OnDeadline(now); }
  std::shared_ptr<void> TakeMemory() override;
  void Abandon() override { (void)state_.socket.release(); }

 private:
  IwarpState state_;
  IwarpReceiver receiver_;
  IwarpSender sender_;
};

}  // namespace nd::provider::soft
