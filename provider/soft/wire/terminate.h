// SPDX-License-Identifier: Apache-2.0
// The Terminate message (RFC 5040 4.8): the error that ends a stream, with the headers of the offending
// segment.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "provider/soft/wire/bytes.h"
#include "provider/soft/wire/ddp.h"
#include "provider/soft/wire/fault.h"
#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft::wire {

inline constexpr std::size_t kMinTerminateSize = 4;
// Control 4, DDP segment length 2, DDP header 18, Read Request header 28.
inline constexpr std::size_t kMaxTerminateSize = 4 + 2 + kUntaggedHeaderSize + kReadRequestSize;

// Linux siw on little-endian machines writes the control word's bit fields mirrored: layer and type are
// swapped within the first byte, and M, D, R are the low bits of the third.
enum class TerminateLayout : std::uint8_t { kRfc, kSiw };

struct Terminate {
  Fault fault;
  std::optional<std::uint16_t> segment_length;  // M: of the offending DDP segment.
  std::optional<DdpHeader> ddp_header;          // D
  std::optional<ReadRequest> read_request;      // R; only with `ddp_header`.
};

// Which layout a payload has, judged by where the M, D, R bits are; kRfc when none is set.
TerminateLayout DetectTerminateLayout(ByteSpan payload);

// The payload of a kTerminate segment. Empty when it is shorter than 4 bytes. Quoted headers that are
// truncated or malformed are left out: a Terminate message never causes an error.
std::optional<Terminate> DecodeTerminate(ByteSpan payload, TerminateLayout layout);

// Writes the payload (the DDP header of the Terminate message itself is not included), returns its size.
std::size_t EncodeTerminate(const Terminate& terminate, TerminateLayout layout,
                            std::span<std::byte, kMaxTerminateSize> to);

// The message for an offending ULPDU. It quotes the length and the headers that RFC 5040 requires for the
// fault.
Terminate MakeTerminate(const Fault& fault, ByteSpan offending_ulpdu);

}  // namespace nd::provider::soft::wire
