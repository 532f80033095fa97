// SPDX-License-Identifier: Apache-2.0
// A reference model of an iWARP receiver: small and slow, it only keeps records and gives a verdict on each
// segment.
#pragma once

#include <deque>
#include <optional>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/wire/fault.h"
#include "tests/fuzz/arena.h"
#include "tests/fuzz/fpdu_tools.h"

namespace nd::fuzz {

class RdmapModel {
 public:
  struct Memory {
    std::uint32_t stag = 0, access = 0;
    std::uint64_t base = 0, length = 0;
    bool other_queue_pair = false, own_window = false;
  };
  struct Piece {
    std::uint64_t address = 0;
    std::uint32_t length = 0;
  };
  struct Receive {
    std::uintptr_t tag = 0;
    std::vector<Piece> pieces;
    bool forbidden = false;  // Refers to memory that was not registered for this access.
  };
  struct Received {
    std::uintptr_t tag = 0;
    StatusCode status = StatusCode::kSuccess;
    std::uint32_t bytes = 0;
  };
  struct Asked {  // A local Read that is on the wire.
    std::uint32_t stag = 0, size = 0, done = 0;
    std::vector<Piece> sink;  // Empty: a confirmation.
  };
  struct Answer {  // A Read of the peer that has to be answered.
    std::uint32_t stag = 0, size = 0, source_stag = 0;
    std::uint64_t offset = 0, source = 0;
  };

  RdmapModel(Arena& arena, std::uint32_t read_limit, bool own_peer, bool crc, bool patient)
      : arena_(arena), read_limit_(read_limit), own_peer_(own_peer), crc_(crc), patient_(patient) {}

  // A whole FPDU arrived.
  void Arrive(std::vector<std::uint8_t> ulpdu, bool crc_good) {
    waiting_.push_back({std::move(ulpdu), crc_good});
  }
  // The receiver processes all available frames.
  void Look();
  void Post(Receive receive) { receives_.push_back(std::move(receive)); }

  std::vector<Memory> memory;
  std::deque<Asked> asked;
  std::vector<Answer> answers;  // Expected since the last Look().
  std::deque<Received> received;
  std::uint64_t messages_sent = 0;

  bool dead() const { return dead_; }
  bool held() const { return held_; }
  // The fault that must end the connection; empty when the peer ended it.
  const std::optional<provider::soft::wire::Fault>& fault() const { return fault_; }
  std::uint32_t send_msn() const { return send_msn_; }
  std::uint32_t read_msn() const { return read_msn_; }
  std::uint32_t message_offset() const { return in_message_ ? message_offset_ : 0; }

 private:
  struct Frame {
    std::vector<std::uint8_t> ulpdu;
    bool crc_good;
  };
  using Bytes = std::span<const std::uint8_t>;
  // Returns false when the frame waits for a receive.
  bool Take(const Frame& frame);
  void TakeAnswersBehindHeldSend();
  bool TakeSend(const Header& header, Bytes payload);
  void TakeWrite(const Header& header, Bytes payload);
  void TakeReadRequest(const Header& header, Bytes payload);
  void TakeReadResponse(const Header& header, Bytes payload);
  void End(const provider::soft::wire::Fault& fault);
  void EndReceives(StatusCode first);
  const Memory* Find(std::uint32_t stag) const;
  void Place(const std::vector<Piece>& pieces, std::uint32_t skip, Bytes bytes);

  Arena& arena_;
  const std::uint32_t read_limit_;
  const bool own_peer_, crc_, patient_;
  std::deque<Frame> waiting_;
  std::deque<Receive> receives_;
  std::uint32_t send_msn_ = 1, read_msn_ = 1, message_offset_ = 0;
  bool in_message_ = false, dead_ = false, held_ = false;
  std::optional<provider::soft::wire::Fault> fault_;
};

}  // namespace nd::fuzz
