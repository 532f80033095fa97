// SPDX-License-Identifier: Apache-2.0
// Limits the frames that a client sends on an HTTP/2 connection, judged by their headers before gRPC reads
// them.
//
// gRPC makes a call object for every new stream and keeps it for a while after the client has reset the
// stream; its own limits count open streams only. This class counts new streams, and frames that cause work
// and carry nothing. Plain values of one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"

namespace nd::service {

// A token bucket: `burst` at once, then `per_second`.
struct Pace {
  double burst, per_second;
};

class Bucket {
 public:
  explicit Bucket(Pace pace) : pace_(pace), left_(pace.burst) {}
  // Takes a token. Returns false when there is none.
  bool Spend(Time now);
  // Takes tokens even when there are fewer: the debt is paid by time.
  void Charge(std::size_t count, Time now);
  // Returns the time until there is no debt.
  Duration Debt(Time now) const;
  bool full(Time now) const { return Left(now) >= pace_.burst; }

 private:
  double Left(Time now) const;
  const Pace pace_;
  double left_;
  Time last_{};
};

class Http2Guard {
 public:
  static constexpr Pace kStreams = {64, 16};
  // SETTINGS, PING, PRIORITY, RST_STREAM, DATA without data, and unknown kinds.
  static constexpr Pace kIdleFrames = {256, 128};
  static constexpr std::size_t kHeaderBytes =
      16 * 1024;  // The limit for one header block with its continuations.
  static constexpr std::size_t kContinuations = 8;

  // Checks the next bytes of the client. Returns an empty text when they may pass, else the exceeded limit;
  // the connection then has to end.
  std::string_view Take(std::span<const std::byte> bytes, Time now);
  // The number of streams so far.
  std::size_t streams_begun() const { return streams_begun_; }

 private:
  std::string_view OnFrame(Time now);

  std::size_t preface_left_ = 24;
  std::array<std::byte, 9> header_{};
  std::size_t header_size_ = 0, payload_left_ = 0;
  std::size_t block_bytes_ = 0, continuations_ = 0, streams_begun_ = 0;
  Bucket streams_{kStreams}, idle_{kIdleFrames};
};

}  // namespace nd::service
