// SPDX-License-Identifier: Apache-2.0
// Reads only the nine bytes before each frame: its length, kind and flags (RFC 9113, section 4.1).
#include "daemon/service/http2_guard.h"

#include <algorithm>
#include <chrono>

namespace nd::service {
namespace {

enum Kind : std::uint8_t {
  kData = 0,
  kHeaders = 1,
  kPriority = 2,
  kResetStream = 3,
  kSettings = 4,
  kPing = 6,
  kGoAway = 7,
  kWindowUpdate = 8,
  kContinuation = 9,
};
constexpr std::uint8_t kAck = 0x1;        // Of SETTINGS and PING: the reply to a frame of gRPC.
constexpr std::uint8_t kEndStream = 0x1;  // A flag of DATA.

}  // namespace

double Bucket::Left(Time now) const {
  if (last_ == Time{}) return left_;
  const double seconds = std::chrono::duration<double>(now - last_).count();
  return std::min(pace_.burst, left_ + pace_.per_second * seconds);
}

bool Bucket::Spend(Time now) {
  left_ = Left(now);
  last_ = now;
  if (left_ < 1) return false;
  left_ -= 1;
  return true;
}

void Bucket::Charge(std::size_t count, Time now) {
  left_ = Left(now) - static_cast<double>(count);
  last_ = now;
}

Duration Bucket::Debt(Time now) const {
  const double left = Left(now);
  if (left >= 0) return Duration::zero();
  return std::chrono::ceil<Duration>(std::chrono::duration<double>(-left / pace_.per_second));
}

std::string_view Http2Guard::Take(std::span<const std::byte> bytes, Time now) {
  const auto skip = [&bytes](std::size_t* left) {
    const std::size_t n = std::min(*left, bytes.size());
    *left -= n;
    bytes = bytes.subspan(n);
  };
  skip(&preface_left_);  // gRPC refuses a wrong preface.
  while (!bytes.empty()) {
    if (payload_left_ > 0) {
      skip(&payload_left_);
      continue;
    }
    header_[header_size_++] = bytes.front();
    bytes = bytes.subspan(1);
    if (header_size_ < header_.size()) continue;
    header_size_ = 0;
    if (const std::string_view why = OnFrame(now); !why.empty()) return why;
  }
  return {};
}

std::string_view Http2Guard::OnFrame(Time now) {
  const auto byte = [this](std::size_t i) { return std::to_integer<std::uint8_t>(header_[i]); };
  const std::size_t length = std::size_t{byte(0)} << 16 | std::size_t{byte(1)} << 8 | byte(2);
  const std::uint8_t kind = byte(3), flags = byte(4);
  payload_left_ = length;
  switch (kind) {
    case kHeaders:
      block_bytes_ = length;
      continuations_ = 0;
      ++streams_begun_;
      if (!streams_.Spend(now)) return "it opens streams too fast";
      break;
    case kContinuation:
      block_bytes_ += length;
      if (++continuations_ > kContinuations) return "its header block has too many continuations";
      break;
    case kWindowUpdate:  // Follows from every read.
      return {};
    case kData:
      if (length > 0 || (flags & kEndStream) != 0) return {};
      break;
    case kSettings:
    case kPing:
      if ((flags & kAck) != 0) return {};
      break;
    default:
      break;
  }
  if (block_bytes_ > kHeaderBytes) return "its header block is too large";
  if (kind == kHeaders || kind == kContinuation) return {};
  return idle_.Spend(now) ? std::string_view() : "it sends too many empty frames";
}

}  // namespace nd::service
