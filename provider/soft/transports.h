// SPDX-License-Identifier: Apache-2.0
// The transports of soft: their hand-overs, and their names for people.
#pragma once

#include <cstdint>
#include <string_view>

#include "provider/hand_off.h"

namespace nd::provider::soft {

// Descriptors: 0: the sealed memfd of the segment, 1: this side's end of the doorbell socket, which is of
// messages.
inline constexpr provider::TransportKind kShared{1};
inline constexpr std::string_view kSharedName = "local";
struct [[gnu::packed]] SharedPayload {
  std::uint32_t unused[5] = {};
  std::uint64_t segment_size = 0;  // Bytes of the memfd.
};

// Descriptor 0: the TCP socket.
inline constexpr provider::TransportKind kIwarp{2};
inline constexpr std::string_view kIwarpName = "iwarp";
struct IwarpPayload {
  // The next message sequence numbers, queue 0 (Send) and queue 1 (Read Request).
  std::uint32_t send_msn_out = 1, send_msn_in = 1;
  std::uint32_t read_msn_out = 1, read_msn_in = 1;
  std::uint32_t max_ulpdu = 0;  // The largest ULPDU to send; 0: decide from the socket.
  std::uint32_t unused[2] = {};
};

inline HandOffRecord SharedRecord(std::uint64_t segment_size) {
  HandOffRecord record;
  record.transport = kShared;
  record.fd_count = 2;
  SetPayload(SharedPayload{.segment_size = segment_size}, &record);
  return record;
}
inline HandOffRecord IwarpRecord(const IwarpPayload& payload = {}) {
  HandOffRecord record;
  record.transport = kIwarp;
  record.fd_count = 1;
  SetPayload(payload, &record);
  return record;
}

}  // namespace nd::provider::soft
