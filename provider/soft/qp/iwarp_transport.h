// SPDX-License-Identifier: Apache-2.0
// A connection over TCP that speaks iWARP: MPA framing, DDP, RDMAP (RFC 5044, 5041, 5040).
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "provider/hand_off.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/transport.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {

// Checks the record and the socket. INVALID_PARAMETER; the descriptor stays in `hand_off` then.
Result<std::unique_ptr<Transport>> MakeIwarpTransport(SoftQueuePair& queue_pair, HandOff& hand_off);

// Sends and Writes are counted at both ends, except an empty Write to STag 0, which reports the count on the
// wire.
inline bool Counts(const InitiatorRequest& request) {
  return request.op <= Op::kWrite &&
         (request.op != Op::kWrite || request.list.length != 0 || request.token != 0);
}

class IwarpTransport final : public Transport {
 public:
  IwarpTransport(SoftQueuePair& queue_pair, const HandOffRecord& record, std::uint32_t max_ulpdu,
                 UniqueFd socket);

  int fd() const override { return socket_.get(); }
  void Transmit() override;
  bool Progress(bool look_at_fd) override;
  bool Arm() override;
  Interest Settle(bool) override { return interest(); }
  Interest interest() const override;
  void OnReceivePosted() override { runnable_ = runnable_ || held_; }
  void OnFlushInitiator() override;
  void OnFlushReceive() override;
  void SayGoodbye() override;
  bool finished() const override { return goodbye_sent_; }
  void SayTerminate(EndCode code) override;
  Status cause() const override { return cause_; }
  bool PeerTouches(std::uint32_t) override {
    return false;
  }  // Only this process accesses memory, under the lock.
  void OnDeadline(Time now) override;
  void Abandon() override { (void)socket_.release(); }

 private:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};
  // The polls for which a confirmation without a waiter may be delayed to share a segment: about 30 us.
  static constexpr unsigned kQuietPolls = 64;
  struct OutboundRead {
    std::uint64_t request = kNone;  // kNone: a confirmation, or flushed.
    std::uint64_t confirms = 0;     // Its response confirms all requests before this position.
    std::uint32_t sink_stag = 0, size = 0, done = 0;
    bool confirmation = false;
    std::uint64_t wire_end = 0;  // Where its request ends in the outgoing stream.
    SgeCursor sink;
  };
  struct InboundRead {
    wire::ReadRequest request;
    std::uint32_t done = 0;
  };

  // Sends of the peer complete only when they were received.
  bool peer_confirms() const { return own_peer_ && read_inbound_ != 0; }

  // --- iwarp_transport_tx.cc
  bool Pump();
  bool Fill();
  bool Flush();
  bool FrameRequest();
  bool FrameReadRequest(InitiatorRequest* request);
  bool FrameResponse();
  bool NeedsConfirmation() const;
  bool Urgent() const;
  bool Gathers() const;
  void BeginBatch();
  void CopyRestOfBatch();
  // Goodbye: answers the received data, reports the count, then ends the stream.
  void TryGoodbye();
  void FrameReceived();
  void EndOutput();
  std::byte* Stage(std::size_t size);
  void Reference(const std::byte* data, std::size_t size);
  // Frames `size` bytes from `cursor` (or `from`), copied or referred to by size.
  void Frame(const wire::Segment& segment, SgeCursor* cursor, const std::byte* from, std::uint32_t size);
  std::uint32_t Room(wire::Opcode opcode) const;
  // --- iwarp_transport_rx.cc
  bool Receive();
  // False while a Send is held and the receive buffer is full or has the end of the stream.
  bool CanReceive() const;
  void GiveUpHeldSend();
  void Parse();
  void TakeAnswersBehindHeldSend();
  bool Handle(wire::ByteSpan ulpdu);
  bool HandleSend(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleWrite(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleReceived(std::uint64_t count, wire::ByteSpan ulpdu);
  bool HandleReadRequest(const wire::Segment& segment, wire::ByteSpan ulpdu);
  bool HandleReadResponse(const wire::Segment& segment, wire::ByteSpan ulpdu);
  void HandleTerminate(const wire::Segment& segment);
  void EndedBy(const char* side, const wire::Fault& fault);
  bool Violation(const wire::Fault& fault, wire::ByteSpan ulpdu);
  void EndOfStream();
  bool SenderGaveUp() const;
  bool WasReset() const;
  void Lost(int error);

  SoftQueuePair& queue_pair_;
  UniqueFd socket_;
  const bool crc_, own_peer_, confirm_;
  const std::uint32_t read_inbound_, read_outbound_, max_ulpdu_;

  // Sending: one batch of pieces at a time; the next one is made when this one is entirely in the socket.
  std::unique_ptr<std::byte[]> stage_;
  std::size_t stage_used_ = 0;
  std::vector<os::Piece> batch_;
  std::size_t batch_at_ = 0, batch_bytes_ = 0;
  std::uint64_t batch_end_ = 0;  // Requests before this position are entirely in the batch.
  std::vector<std::byte> orphans_;
  bool blocked_ = false, runnable_ = false, reset_ = false, broken_ = false, received_now_ = false;
  std::uint32_t send_msn_, read_msn_;
  std::uint64_t partial_ = kNone;
  SgeCursor partial_from_;
  std::uint32_t partial_done_ = 0;
  std::uint64_t confirmed_to_ = 0;  // Reads in flight will confirm everything before this position.
  std::uint64_t confirm_end_ = 0;   // Behind the last Send or Write that is on the wire.
  bool confirmation_in_flight_ = false;
  bool awaited_ = false;            // A completion depends on the confirmation.
  unsigned quiet_polls_ = 0;        // Rounds without news since the last Send or Write.
  std::uint64_t messages_out_ = 0;  // Sends and Writes that are completely framed.
  std::uint64_t bytes_framed_ = 0, bytes_sent_ = 0;
  bool goodbye_wanted_ = false, goodbye_sent_ = false;

  std::unique_ptr<std::byte[]> rx_;
  std::size_t rx_begin_ = 0, rx_end_ = 0;
  std::size_t looked_to_ = 0;  // While a Send is held: there is no unread answer before this place.
  bool stream_read_ = false;   // The socket reported the end of the stream.
  int lost_error_ = 0;         // The socket failed behind a held Send.
  bool drained_ = false;       // The last receive emptied the socket.
  bool stream_ended_ = false;
  std::size_t drained_bytes_ = 0;   // Since the start of our goodbye.
  std::uint64_t messages_in_ = 0;   // Sends and Writes that arrived completely.
  std::uint64_t confirmed_in_ = 0;  // Those that a later Read Request confirmed.
  std::uint32_t send_msn_in_, read_msn_in_;
  bool in_message_ = false, swallow_ = false, held_ = false;
  bool given_up_ = false;  // A held Send must not take a receive any more.
  std::uint32_t message_done_ = 0, message_offset_ = 0;
  SgeCursor message_sink_;
  Time held_until_ = Time::max();
  std::optional<wire::Terminate> last_words_;
  Status cause_;

  std::vector<OutboundRead> reads_;
  std::uint32_t reads_head_ = 0, reads_tail_ = 0;
  std::vector<InboundRead> responses_;
  std::uint32_t responses_head_ = 0, responses_tail_ = 0, empty_responses_ = 0;
};

}  // namespace nd::provider::soft
