// SPDX-License-Identifier: Apache-2.0
// The sending half of an iWARP connection: requests, Read Responses, confirmations and the goodbye become
// frames.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>

#include "provider/soft/qp/iwarp/answer_patience.h"
#include "provider/soft/qp/iwarp/shared_state.h"
#include "provider/soft/qp/transfer/partial_request.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft {

class IwarpSender {
 public:
  IwarpSender(IwarpState& state, const HandOffRecord& record, std::uint32_t max_ulpdu);

  // Requests were posted.
  void OnPost();
  // Called after the receiver's round; `received`: it handled a frame. Returns true when data moved.
  bool OnRound(bool received);
  // A thread is about to sleep: everything is sent, as far as the socket takes it.
  void OnSleep();
  // The requests have no owner any more.
  void OnFlush();
  // A message was flushed in its middle: the stream cannot continue.
  bool broken() const { return broken_; }

  // Ends the stream when everything before is in the socket.
  void EndOutput();
  // Sends a Terminate if the stream is between two frames. Returns false when the socket does not take it.
  bool Terminate(const wire::Terminate& words);

 private:
  // The polls for which a confirmation without a waiter may be delayed to share a segment: about 30 us.
  static constexpr unsigned kQuietPolls = 64;

  bool Pump();
  bool Fill();
  // The rest of a message waits to be framed.
  bool InsideMessage();
  bool FrameRequest();
  // The immediate data of the partial Write, whose segments are framed.
  void FrameImmediate(const InitiatorRequest& request);
  // The last segment of the partial request is framed.
  void FinishRequest(const InitiatorRequest& request);
  // Null: a confirmation. Else a Read or an atomic operation.
  void FrameReadRequest(InitiatorRequest* request);
  bool FrameResponse();
  bool FrameAtomicResponse(IwarpResponse& answer);
  bool NeedsConfirmation() const;
  bool Urgent() const;
  bool Gathers() const;
  // Goodbye: answers the received data, reports the count, then ends the stream.
  void TryGoodbye();
  void ReportReceived();
  // The payload that fits a frame.
  std::uint32_t Room(wire::Opcode opcode) const;

  IwarpState& state_;
  const std::uint32_t max_ulpdu_;
  std::uint32_t send_msn_, read_msn_;
  std::uint32_t atomic_response_msn_ = 1;
  PartialRequest partial_;
  std::uint64_t batch_end_ = 0;     // Requests before this position are entirely in the batch.
  std::uint64_t confirmed_to_ = 0;  // Reads in flight will confirm everything before this position.
  bool awaited_ = false;            // A completion depends on the confirmation.
  bool broken_ = false;
  AnswerPatience patience_;
  std::uint64_t heard_ = 0;   // The messages of the peer that had arrived when the last batch began.
  unsigned quiet_polls_ = 0;  // Rounds without news since the last Send or Write.
};

}  // namespace nd::provider::soft
