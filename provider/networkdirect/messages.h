// SPDX-License-Identifier: Apache-2.0
// The messages between the two halves of the provider over Network Direct adapters of the system.
//
// A connector of Network Direct lives in the process that made it. So the client half listens, connects,
// accepts and rejects, by order of the daemon half, and reports what came of it. Pure functions; a message
// of the other half is not trusted, and Decode() checks its form.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/hand_off.h"

namespace nd::provider::networkdirect {

inline constexpr TransportKind kTransport{4};
inline constexpr std::string_view kName = "networkdirect";
// More private data than any adapter of Network Direct takes.
inline constexpr std::size_t kMaxData = 8 * 1024;

// Numbers of attempts: the daemon chooses those of Connect, the client those of requests that arrived.
inline constexpr std::uint64_t kArrivedBit = std::uint64_t{1} << 63;

enum class Kind : std::uint16_t {
  // To the daemon half.
  kHello = 1,    // text: the name of the adapter. The first message of a device.
  kReserved,     // endpoint, status
  kArrived,      // endpoint, number, local, remote, limits, data
  kReplied,      // number, limits, data
  kRefused,      // number, status, data
  kFailed,       // number, status
  kEstablished,  // number
  kLost,         // number, status, data
  // To the client half.
  kWelcome = 101,  // status; number: the adapter's id; class_id; text: the path of the DLL
  kReserve,        // endpoint, listens, local
  kRelease,        // endpoint
  kListen,         // endpoint
  kUnlisten,       // endpoint
  kConnect,        // number, endpoint, queue_pair, local, remote, limits, data
  kAccept,         // number, queue_pair, limits, data
  kReject,         // number, data
  kConfirm,        // number
  kAbort,          // number
};

using ClassId = std::array<std::uint8_t, 16>;

struct Message {
  Kind kind{};
  bool listens = false;
  std::uint64_t number = 0;
  std::uint64_t endpoint = 0;
  std::uint32_t queue_pair = 0;
  ReadLimits limits;  // As GetReadLimits of the sender's own connector says, or as Connect and Accept take.
  Address local, remote;
  Status status;  // Without its native code.
  ClassId class_id{};
  std::vector<std::uint8_t> data;
  std::string text;
};

// Cuts a longer text or sentence off. `data` has at most kMaxData bytes.
std::vector<std::byte> Encode(const Message& message);
// No value: the bytes are no message of this version.
std::optional<Message> Decode(std::span<const std::byte> bytes);

// The hand-over: the connection that the client half has under this number.
struct Payload {
  std::array<std::byte, sizeof(std::uint64_t)> number{};
  std::array<std::byte, 20> reserved{};
};
Payload PayloadFor(std::uint64_t number);
std::uint64_t NumberIn(const Payload& payload);

}  // namespace nd::provider::networkdirect
