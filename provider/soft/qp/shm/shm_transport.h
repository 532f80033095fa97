// SPDX-License-Identifier: Apache-2.0
// A connection inside one host: two rings in shared memory, and direct copies to and from the peer's memory.
#pragma once

#include <memory>

#include "base/memfd.h"
#include "base/unique_fd.h"
#include "provider/hand_off.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/shm/receiver.h"
#include "provider/soft/qp/shm/sender.h"
#include "provider/soft/qp/shm/shared_state.h"
#include "provider/soft/qp/transport.h"

namespace nd::provider::soft {

// Checks the record, the seals and the size of the segment. INVALID_PARAMETER, ACCESS_VIOLATION,
// INSUFFICIENT_RESOURCES; the descriptors stay in `hand_off` then.
Result<std::unique_ptr<Transport>> MakeShmTransport(SoftQueuePair& queue_pair, HandOff& hand_off);

class ShmTransport final : public Transport {
 public:
  ShmTransport(SoftQueuePair& queue_pair, const HandOffRecord& record, Mapping segment, UniqueFd socket);
  ~ShmTransport() override { Close(); }

  int fd() const override { return state_.rings.socket(); }
  void Transmit() override;
  bool StartAtOnce(QuietWords* words) override;
  bool CopyAtOnce(const OneSided& request) override { return sender_.CopyAtOnce(request); }
  bool Progress(bool look_at_fd) override;
  bool Arm() override;
  bool ArmedFromStart() override { return state_.rings.armed(); }
  Interest Settle(bool ordered, bool keeps_time) override;
  bool SleepOnWord(os::SleptOn* slept_on) override { return state_.rings.SleepOnWord(slept_on); }
  bool LeaveWord() override { return state_.rings.LeaveWord(); }
  Interest interest() const override;
  void FindQuietWords(QuietWords* words) const override;
  bool ProgressQuiet(QuietWords* words) override;
  bool AskToAnnounce(int page, std::uint32_t place) override;
  bool PeerAnnounces() const override {
    return state_.rings.theirs().announces.load(std::memory_order_acquire) != 0;
  }
  void OnReceivePosted() override {}
  void OnFlushInitiator() override { sender_.OnFlush(); }
  void OnFlushReceive() override { receiver_.arriving().OnReceiveFlushed(); }
  void SayGoodbye() override;
  bool finished() const override { return goodbye_published_; }
  void SayTerminate(EndCode code) override;
  Status cause() const override { return cause_; }
  bool PeerTouches(std::uint32_t stag) override;
  bool PeerLives() override { return state_.peer_process.Lives(); }
  void OnProtection() override { state_.rings.PublishProtection(); }
  void OnDeadline(Time now) override;
  std::shared_ptr<void> TakeMemory() override;
  void Abandon() override { state_.rings.Abandon(); }

 private:
  // Shows the peer that this side is closed. A copy of the peer that is running now is awaited by the end of
  // the registration, not here.
  void Close();
  // interest(), without the look that the barrier asks for.
  Interest Remaining() const;
  // Something depends on the end of records of this side.
  bool AwaitsAcknowledgements() const;
  void ArmForMore();
  void ContinueGoodbye();
  void PublishGoodbye();
  void OnPeerEnd(std::uint32_t code);

  ShmState state_;
  ShmReceiver receiver_;
  ShmSender sender_;
  bool goodbye_published_ = false;
  std::uint32_t goodbye_from_ = 0;  // Records before this position are handled before the goodbye.
  // When the kernel has no barrier: the time at which a sleeper examines the ring again.
  Time rearm_at_ = Time::max();
  // When it has: the time of the second look.
  Time look_again_at_ = Time::max();
  Status cause_;
};

}  // namespace nd::provider::soft
