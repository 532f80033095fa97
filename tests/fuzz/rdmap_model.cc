// SPDX-License-Identifier: Apache-2.0
// The checks in the order of RFC 5041 section 5 and RFC 5040 sections 5 and 6.
#include "tests/fuzz/rdmap_model.h"

namespace nd::fuzz {
namespace {

using provider::soft::wire::Fault;
using provider::soft::wire::Layer;

constexpr Fault Rdmap(std::uint8_t type, std::uint8_t code) {
  return {Layer::kRdmap, type, code};
}
constexpr Fault Ddp(std::uint8_t type, std::uint8_t code) {
  return {Layer::kDdp, type, code};
}
constexpr std::uint32_t kLongestMessage = 1u << 30;  // As reported by the adapter.

std::uint64_t Big(std::span<const std::uint8_t> bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < count; ++i) value = value * 256 + bytes[at + i];
  return value;
}

std::uint32_t Total(const std::vector<RdmapModel::Piece>& pieces) {
  std::uint32_t total = 0;
  for (const auto& piece : pieces) total += piece.length;
  return total;
}

// The reason why an access to `length` bytes at `address` is refused: the part of the fault that Writes (DDP)
// and Reads (RDMAP) have in common.
enum class Why { kNone, kStag, kStream, kRights, kBounds };
Why Judge(const RdmapModel::Memory* memory, std::uint64_t address, std::uint64_t length,
          std::uint32_t access) {
  if (length == 0) return Why::kNone;
  if (memory == nullptr) return Why::kStag;
  if (memory->other_queue_pair) return Why::kStream;
  if ((memory->access & access) != access) return Why::kRights;
  __extension__ using Wide = unsigned __int128;  // Sums do not wrap.
  const Wide first = address, last = first + length;
  const Wide low = memory->base, high = low + memory->length;
  return first >= low && last <= high ? Why::kNone : Why::kBounds;
}

}  // namespace

const RdmapModel::Memory* RdmapModel::Find(std::uint32_t stag) const {
  for (const Memory& one : memory) {
    if (stag != 0 && one.stag == stag) return &one;
  }
  return nullptr;
}

void RdmapModel::Place(const std::vector<Piece>& pieces, std::uint32_t skip, Bytes bytes) {
  for (const Piece& piece : pieces) {
    const std::uint32_t gone = std::min(skip, piece.length);
    const std::size_t part = std::min<std::size_t>(piece.length - gone, bytes.size());
    if (part != 0) std::memcpy(arena_.Expected(piece.address + gone), bytes.data(), part);
    bytes = bytes.subspan(part);
    skip -= gone;
  }
}

void RdmapModel::EndReceives(StatusCode first) {
  for (const Receive& receive : receives_) {
    received.push_back({receive.tag, first, 0});
    first = StatusCode::kCanceled;
  }
  receives_.clear();
}

void RdmapModel::End(const Fault& fault) {
  dead_ = true;
  fault_ = fault;
  EndReceives(StatusCode::kCanceled);
}

void RdmapModel::Look() {
  answers.clear();
  held_ = false;
  while (!waiting_.empty() && !dead_) {
    if (!Take(waiting_.front())) {
      held_ = true;
      break;
    }
    waiting_.pop_front();
  }
  if (held_) TakeAnswersBehindHeldSend();
  // After a protocol error earlier requests are not answered any more.
  if (dead_) answers.clear();
  for (std::size_t i = 0; i < answers.size(); ++i) {
    const Answer& answer = answers[i];
    if (answer.size == 0 || Find(answer.source_stag) != nullptr) continue;
    answers.resize(i);  // The window ended meanwhile.
    return End(Rdmap(1, 0));
  }
  // While the connection waits for a receive it still answers; without patience the wait ends before the next
  // frame.
  if (held_ && !patient_ && !dead_) {
    held_ = false;
    End(Ddp(2, 2));
  }
}

// Up to the first malformed frame, which is judged when its turn comes.
void RdmapModel::TakeAnswersBehindHeldSend() {
  for (auto frame = waiting_.begin(); frame != waiting_.end() && !dead_;) {
    Header header;
    if ((crc_ && !frame->crc_good) || JudgeSegment(frame->ulpdu, &header)) return;
    if (header.opcode != 2) {
      ++frame;
      continue;
    }
    TakeReadResponse(header, Bytes(frame->ulpdu).subspan(header.size));
    frame = waiting_.erase(frame);
  }
}

bool RdmapModel::Take(const Frame& frame) {
  const auto end = [&](const Fault& fault) {
    End(fault);
    return true;
  };
  if (crc_ && !frame.crc_good) return end({Layer::kLlp, 0, 2});
  Header header;
  if (const auto fault = JudgeSegment(frame.ulpdu, &header)) return end(*fault);
  const Bytes payload = Bytes(frame.ulpdu).subspan(header.size);
  switch (header.opcode) {
    case 0:
      TakeWrite(header, payload);
      return true;
    case 1:
      TakeReadRequest(header, payload);
      return true;
    case 2:
      TakeReadResponse(header, payload);
      return true;
    case 7:  // A Terminate of the peer has no answer.
      dead_ = true;
      EndReceives(StatusCode::kCanceled);
      return true;
    default:
      return TakeSend(header, payload);
  }
}

bool RdmapModel::TakeSend(const Header& header, Bytes payload) {
  if (header.msn != send_msn_) return End(Ddp(2, 3)), true;
  if (header.message_offset != message_offset()) return End(Ddp(2, 4)), true;
  if (receives_.empty()) return false;
  if (!in_message_) message_offset_ = 0;
  in_message_ = true;
  const Receive& receive = receives_.front();
  if (payload.size() > Total(receive.pieces) - message_offset_) {
    dead_ = true;
    fault_ = Ddp(2, 5);
    EndReceives(StatusCode::kBufferOverflow);
    return true;
  }
  if (receive.forbidden && !payload.empty()) {
    // The peer learns that its operation failed, and no more.
    dead_ = true;
    fault_ = Rdmap(2, 0xFF);
    EndReceives(StatusCode::kAccessViolation);
    return true;
  }
  Place(receive.pieces, message_offset_, payload);
  message_offset_ += static_cast<std::uint32_t>(payload.size());
  if (!header.last) return true;
  if (header.opcode == 4 || header.opcode == 6) {
    const Memory* window = Find(header.invalidate);
    if (window == nullptr || !window->own_window) return End(Rdmap(1, 0)), true;
    memory.erase(memory.begin() + (window - memory.data()));
  }
  received.push_back({receive.tag, StatusCode::kSuccess, message_offset_});
  receives_.pop_front();
  in_message_ = false;
  ++send_msn_;
  return true;
}

void RdmapModel::TakeWrite(const Header& header, Bytes payload) {
  if (payload.empty() && header.stag == 0) {
    // Between ndbrokers: the number of messages that arrived.
    if (own_peer_ && header.offset > messages_sent) End(Ddp(1, 1));
    return;
  }
  switch (Judge(Find(header.stag), header.offset, payload.size(), kAllowRemoteWrite)) {
    case Why::kStag:
      return End(Ddp(1, 0));
    case Why::kStream:
      return End(Ddp(1, 2));
    case Why::kRights:
      return End(Rdmap(1, 2));
    case Why::kBounds:
      return End(Ddp(1, 1));
    case Why::kNone:
      break;
  }
  if (!payload.empty()) std::memcpy(arena_.Expected(header.offset), payload.data(), payload.size());
}

void RdmapModel::TakeReadRequest(const Header& header, Bytes payload) {
  if (header.msn != read_msn_) return End(Ddp(2, 3));
  if (answers.size() >= read_limit_) return End(Ddp(2, 2));
  Answer answer;
  answer.stag = static_cast<std::uint32_t>(Big(payload, 0, 4));
  answer.offset = Big(payload, 4, 8);
  answer.size = static_cast<std::uint32_t>(Big(payload, 12, 4));
  answer.source_stag = static_cast<std::uint32_t>(Big(payload, 16, 4));
  answer.source = Big(payload, 20, 8);
  if (answer.size > kLongestMessage) return End(Rdmap(1, 1));
  if (answer.size != 0) {
    switch (Judge(Find(answer.source_stag), answer.source, answer.size, kAllowRemoteRead)) {
      case Why::kStag:
        return End(Rdmap(1, 0));
      case Why::kStream:
        return End(Rdmap(1, 3));
      case Why::kRights:
        return End(Rdmap(1, 2));
      case Why::kBounds:
        return End(Rdmap(1, 1));
      case Why::kNone:
        break;
    }
  }
  if (answer.offset + answer.size < answer.offset) return End(Rdmap(1, 4));
  ++read_msn_;
  answers.push_back(answer);
}

void RdmapModel::TakeReadResponse(const Header& header, Bytes payload) {
  if (asked.empty()) return End(Rdmap(2, 6));
  Asked& read = asked.front();
  if (header.stag != read.stag) return End(Ddp(1, 0));
  const std::size_t left = read.size - read.done;
  if (header.offset != read.done || payload.size() > left || header.last != (payload.size() == left)) {
    return End(Ddp(1, 1));
  }
  Place(read.sink, read.done, payload);
  read.done += static_cast<std::uint32_t>(payload.size());
  if (header.last) asked.pop_front();
}

}  // namespace nd::fuzz
