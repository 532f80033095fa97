// SPDX-License-Identifier: Apache-2.0
// A minimal user of a stream: one message or read at a time, and every byte is checked.
#include "tests/sim/talk.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"

namespace nd::sim {
namespace {

namespace wire = provider::soft::wire;

constexpr std::size_t kStamp = 12;  // The end of the sender and the number of the message.

Bytes Payload(EndId end, std::uint32_t msn, std::size_t size) {
  Bytes payload(size);
  for (std::size_t i = 0; i < size; ++i) {
    payload[i] = static_cast<std::uint8_t>(end * 31 + msn * 7 + i * 13 + (i >> 8));
  }
  if (size >= kStamp) {
    for (std::size_t i = 0; i < 8; ++i) payload[i] = static_cast<std::uint8_t>(end >> (8 * i));
    for (std::size_t i = 0; i < 4; ++i) payload[8 + i] = static_cast<std::uint8_t>(msn >> (8 * i));
  }
  return payload;
}

}  // namespace

Talk::Talk(Net& net, Dice& dice, EndId end, const provider::HandOffRecord& record, bool trusted,
           Callbacks callbacks)
    : net_(net),
      dice_(dice),
      end_(end),
      record_(record),
      trusted_(trusted),
      callbacks_(std::move(callbacks)),
      msn_(provider::PayloadOf<provider::soft::IwarpPayload>(record)) {
  net_.Watch(end_, [this, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) OnChange();
  });
}

Talk::~Talk() {
  if (!closed_) net_.Watch(end_, nullptr);
}

bool Talk::Frame(const Bytes& ulpdu) {
  Bytes frame(wire::FpduSize(ulpdu.size()));
  std::memcpy(frame.data() + wire::kFpduHeaderSize, ulpdu.data(), ulpdu.size());
  wire::SealFpdu(std::as_writable_bytes(std::span(frame)), ulpdu.size(),
                 (record_.flags & provider::kHandOffCrc) != 0);
  return net_.Send(end_, frame);
}

bool Talk::SendMessage() {
  if (goodbye_sent_ || closed_) return false;
  const std::size_t size = dice_.Chance(100) ? 0 : dice_.Between(1, 300);
  const Bytes payload = Payload(end_, msn_.send_msn_out, size);
  std::size_t at = 0;
  do {
    std::size_t piece = size - at;
    if (piece > 1 && dice_.Chance(400)) piece = dice_.Between(1, static_cast<std::uint32_t>(piece));
    wire::Segment segment;
    segment.opcode = dice_.Chance(200) ? wire::Opcode::kSendSolicited : wire::Opcode::kSend;
    segment.last = at + piece == size;
    segment.msn = msn_.send_msn_out;
    segment.message_offset = static_cast<std::uint32_t>(at);
    Bytes ulpdu(wire::kMaxSegmentHeader);
    ulpdu.resize(wire::EncodeSegmentHeader(segment, std::as_writable_bytes(std::span(ulpdu)).data()));
    ulpdu.insert(ulpdu.end(), payload.begin() + static_cast<std::ptrdiff_t>(at),
                 payload.begin() + static_cast<std::ptrdiff_t>(at + piece));
    if (!Frame(ulpdu)) return false;
    at += piece;
  } while (at < size);
  ++msn_.send_msn_out;
  ++sent_;
  return true;
}

bool Talk::SendRead() {
  if (goodbye_sent_ || closed_) return false;
  if (reads_out_ >= record_.read_outbound || (record_.flags & provider::kHandOffConfirm) == 0) return true;
  wire::Segment segment;
  segment.opcode = wire::Opcode::kReadRequest;
  segment.msn = msn_.read_msn_out++;
  ++reads_out_;
  Bytes ulpdu(wire::kMaxSegmentHeader);
  const std::size_t header =
      wire::EncodeSegmentHeader(segment, std::as_writable_bytes(std::span(ulpdu)).data());
  ulpdu.resize(header + wire::kReadRequestSize);
  wire::EncodeReadRequest({}, std::as_writable_bytes(std::span(ulpdu)).data() + header);
  return Frame(ulpdu);
}

void Talk::SendTerminate() {
  if (goodbye_sent_ || closed_) return;
  wire::Segment segment;
  segment.opcode = wire::Opcode::kTerminate;
  segment.msn = 1;
  std::array<std::byte, wire::kMaxTerminateSize> words;
  wire::Terminate terminate;
  terminate.fault = wire::fault::kStreamCatastrophic;
  const std::size_t size = wire::EncodeTerminate(terminate, wire::TerminateLayout::kRfc, words);
  Bytes ulpdu(wire::kMaxSegmentHeader);
  ulpdu.resize(wire::EncodeSegmentHeader(segment, std::as_writable_bytes(std::span(ulpdu)).data()));
  for (std::size_t i = 0; i < size; ++i) ulpdu.push_back(wire::ToInt(words[i]));
  Frame(ulpdu);
}

void Talk::Goodbye() {
  if (closed_) return;
  goodbye_sent_ = true;
  net_.Shutdown(end_);
}

void Talk::Close(bool reset) {
  if (std::exchange(closed_, true)) return;
  net_.Close(end_, reset);
}

void Talk::SetReading(bool reading) {
  reading_ = reading;
  if (reading_) OnChange();
}

void Talk::Finish(End how) {
  if (ended_ != End::kNone) return;
  ended_ = how;
  const auto tell = callbacks_.ended;
  tell(how);
}

void Talk::Wrong(const std::string& what) {
  if (trusted_) callbacks_.wrong("end " + std::to_string(end_) + ": " + what);
  Finish(End::kBroken);
}

void Talk::OnChange() {
  const std::weak_ptr<int> alive = alive_;
  while (reading_ && !closed_ && ended_ == End::kNone) {
    const wire::ByteSpan unread = wire::AsBytes(net_.Peek(end_));
    const wire::FpduDecoded frame = wire::DecodeFpdu(unread, (record_.flags & provider::kHandOffCrc) != 0);
    if (frame.verdict != wire::Verdict::kComplete) break;
    if (!frame.crc_ok) return Wrong("a frame fails its CRC");
    const Bytes ulpdu(reinterpret_cast<const std::uint8_t*>(frame.ulpdu.data()),
                      reinterpret_cast<const std::uint8_t*>(frame.ulpdu.data()) + frame.ulpdu.size());
    net_.Consume(end_, frame.size);
    if (!Handle(wire::AsBytes(ulpdu)) || alive.expired()) return;
  }
  if (!reading_ || closed_ || ended_ != End::kNone) return;
  if (const int error = net_.Error(end_); error != 0) {
    return Finish(error == ETIMEDOUT ? End::kTimeout : End::kReset);
  }
  if (net_.AtEnd(end_)) return Finish(End::kGoodbye);
  if (net_.PeerFinished(end_)) Wrong("the stream ends inside a frame");
}

bool Talk::Handle(wire::ByteSpan ulpdu) {
  wire::Segment segment;
  if (const auto fault = wire::DecodeSegment(ulpdu, &segment)) {
    Wrong("a malformed segment: " + wire::Describe(*fault));
    return false;
  }
  switch (segment.opcode) {
    case wire::Opcode::kSend:
    case wire::Opcode::kSendSolicited: {
      if (segment.msn != msn_.send_msn_in || segment.message_offset != offset_in_) {
        Wrong("message " + std::to_string(segment.msn) + " at " + std::to_string(segment.message_offset) +
              " instead of " + std::to_string(msn_.send_msn_in) + " at " + std::to_string(offset_in_));
        return false;
      }
      const Bytes expected = Payload(Net::PeerOf(end_), segment.msn, offset_in_ + segment.payload.size());
      for (std::size_t i = 0; i < segment.payload.size() && trusted_; ++i) {
        // Only messages that are long enough have the stamp; the length is known at the end.
        const bool stamp = offset_in_ + i < kStamp;
        if (!stamp && wire::ToInt(segment.payload[i]) != expected[offset_in_ + i]) {
          Wrong("byte " + std::to_string(offset_in_ + i) + " of message " + std::to_string(segment.msn) +
                " is not what the peer sent");
          return false;
        }
      }
      offset_in_ += static_cast<std::uint32_t>(segment.payload.size());
      if (segment.last) {
        offset_in_ = 0;
        ++msn_.send_msn_in;
        ++received_;
      }
      return true;
    }
    case wire::Opcode::kReadRequest: {
      if (segment.msn != msn_.read_msn_in++) {
        Wrong("a read request out of order");
        return false;
      }
      const wire::ReadRequest request = wire::DecodeReadRequest(segment.payload);
      wire::Segment answer;
      answer.opcode = wire::Opcode::kReadResponse;
      answer.stag = request.sink_stag;
      answer.offset = request.sink_offset;
      Bytes response(wire::kMaxSegmentHeader);
      response.resize(wire::EncodeSegmentHeader(answer, std::as_writable_bytes(std::span(response)).data()));
      if (!goodbye_sent_) Frame(response);
      return true;
    }
    case wire::Opcode::kReadResponse:
      if (reads_out_ == 0) {
        Wrong("a read response that nobody asked for");
        return false;
      }
      --reads_out_;
      return true;
    case wire::Opcode::kTerminate:
      Finish(End::kBroken);
      return false;
    default:
      if (!trusted_) return true;
      Wrong("an unexpected operation");
      return false;
  }
}

}  // namespace nd::sim
