// SPDX-License-Identifier: Apache-2.0
// A connection inside one host: two rings in shared memory, and direct copies into the peer's buffers.
#pragma once

#include <memory>
#include <vector>

#include "base/memfd.h"
#include "base/unique_fd.h"
#include "provider/hand_off.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/token_table.h"
#include "provider/soft/qp/transport.h"

namespace nd::provider::soft {

// Checks the record, the seals and the size of the segment. INVALID_PARAMETER, ACCESS_VIOLATION,
// INSUFFICIENT_RESOURCES; the descriptors stay in `hand_off` then.
Result<std::unique_ptr<Transport>> MakeShmTransport(SoftQueuePair& queue_pair, HandOff& hand_off);

class ShmTransport final : public Transport {
 public:
  ShmTransport(SoftQueuePair& queue_pair, const HandOffRecord& record, Mapping segment, UniqueFd socket);
  ~ShmTransport() override;

  int fd() const override { return socket_.get(); }
  void Transmit() override;
  bool Progress(bool look_at_fd) override;
  bool Arm() override;
  Interest Settle(bool barrier) override;
  Interest interest() const override;
  void OnReceivePosted() override {}
  void OnFlushInitiator() override;
  void OnFlushReceive() override;
  void SayGoodbye() override;
  bool finished() const override { return goodbye_published_; }
  void SayTerminate(EndCode code) override;
  Status cause() const override { return cause_; }
  bool PeerTouches(std::uint32_t stag) override;
  void OnDeadline(Time now) override;
  void Abandon() override;

 private:
  // The purpose of a published slot, for its acknowledgement.
  struct Published {
    std::uint64_t request = kNone;  // Position in the initiator queue.
    std::uint64_t data_end = 0;
    bool completes = false;
  };
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  struct OutboundRead {
    std::uint64_t request = kNone;  // kNone: flushed, its data is dropped.
    std::uint32_t number = 0, remaining = 0;
    SgeCursor sink;
  };
  struct InboundRead {
    std::uint32_t number = 0, stag = 0, remaining = 0;
    std::uint64_t address = 0;
  };
  struct PeerBuffer {
    std::uint32_t id = 0;
    Mapping mapping;
  };

  // --- shm_transport_tx.cc
  bool HasRoom(std::uint32_t bytes) const;
  Slot& Claim();
  void Publish(Slot& slot, std::uint64_t request, bool completes);
  void CopyIn(Slot& slot, SgeCursor& from, std::uint32_t length);
  void CopyIn(Slot& slot, const std::byte* from, std::uint32_t length);
  bool TransmitOne();
  bool ContinuePartial(std::size_t* budget);
  bool StartRequest(InitiatorRequest& request);
  bool SendPieces(InitiatorRequest& request, std::size_t* budget);
  bool WritePieces(InitiatorRequest& request, std::size_t* budget);
  bool StartRead(InitiatorRequest& request);
  bool CanGoByReference(const InitiatorRequest& request);
  bool Respond();
  bool PublishControl(RecordKind kind);
  void PublishGoodbye();
  void WakePeer();
  bool Acknowledge();
  // --- shm_transport_rx.cc
  bool Consume();
  bool RecordWaits() const;
  bool RecordWaitsBehindHeldSend() const;
  // Takes the Read Responses behind the held Send. Returns true when a goodbye follows it.
  bool LookBehindHeldSend();
  // The bytes of the record are where it says. Ends the connection otherwise.
  bool FitsItsPlace(const Slot& record);
  bool ConsumeOne(const Slot& record);
  bool ConsumeSend(const Slot& record);
  bool ConsumeWrite(const Slot& record);
  bool ConsumeReadRequest(const Slot& record);
  bool ConsumeReadResponse(const Slot& record);
  void CopyOut(const Slot& record, std::uint32_t skip, std::byte* to, std::size_t length) const;
  void CheckEnd();
  void Lost(DisconnectReason reason);
  void Violation();
  // --- shm_transport_share.cc
  void ShareTable();
  bool ShareBuffer(std::uint32_t id);
  void MaybeShare(std::uint32_t stag);
  void ReadSocket();
  void Adopt(const ShareMessage& message, UniqueFd fd);
  const Mapping* PeerMapping(std::uint32_t id);
  bool Direct(InitiatorRequest& request, std::size_t* budget, bool* waits);

  Ring& out() { return segment_->ring[side_]; }
  const Ring& in() const { return segment_->ring[1 - side_]; }
  SideControl& mine() { return segment_->side[side_]; }
  SideControl& theirs() const { return segment_->side[1 - side_]; }

  SoftQueuePair& queue_pair_;
  Mapping mapping_;
  Segment* segment_;
  UniqueFd socket_;
  const int side_;
  const bool share_;
  const std::uint32_t read_inbound_, read_outbound_;
  const bool barrier_;

  // Producer. Positions of slots wrap at 2^32.
  std::uint32_t tx_head_ = 0, tx_acked_ = 0;
  std::uint64_t data_head_ = 0, data_tail_ = 0;
  std::vector<Published> published_;
  bool doorbell_due_ = false;  // A slot was published since the peer was last woken.
  bool runnable_ = false;
  Status cause_;
  std::uint64_t partial_ = kNone;  // The request that is partly published or copied.
  SgeCursor partial_from_;
  std::uint32_t partial_done_ = 0;
  enum class Path { kRing, kReference, kDirect } partial_path_ = Path::kRing;
  std::uint32_t last_write_end_ = 0;  // tx position behind the last Write in the ring.
  bool write_in_ring_ = false;
  bool goodbye_wanted_ = false, goodbye_published_ = false, abandon_wanted_ = false;
  std::uint32_t goodbye_from_ = 0;  // Slots before this position are handled first.

  // Consumer
  std::uint32_t rx_head_ = 0;
  std::uint32_t message_done_ = 0;  // The placed bytes of the arriving Send.
  SgeCursor message_sink_;
  bool in_message_ = false, swallow_ = false;
  bool held_ = false;
  bool given_up_ = false;     // A held Send must not take a receive any more.
  std::uint32_t looked_ = 0;  // From rx_head_ on, so many records have no goodbye and no unread answer.
  Time held_until_ = Time::max(), rearm_at_ = Time::max();
  bool hung_up_ = false, peer_goodbye_ = false;
  bool armed_ = false;  // Our flag is set, and no doorbell was taken since.

  std::vector<OutboundRead> reads_;  // Ring of read_outbound_ entries.
  std::uint32_t reads_head_ = 0, reads_tail_ = 0;
  std::vector<InboundRead> responses_;  // Ring of read_inbound_ entries.
  std::uint32_t responses_head_ = 0, responses_tail_ = 0;

  Mapping peer_table_;
  std::vector<PeerBuffer> peer_buffers_;
  std::vector<std::uint32_t> shared_buffers_;
};

}  // namespace nd::provider::soft
