// SPDX-License-Identifier: Apache-2.0
// Private data as it travels.
//
// iWARP carries exact lengths, so the data goes as it is. InfiniBand and RoCE carry fields of fixed size: the
// receiver sees them padded with zeros. Two bytes at the very end of the field say how much of it is data:
//   field[size-2] = 0xBD, field[size-1] = length, everything between data and trailer is zero.
// A field without that trailer is a foreign peer's and is reported whole. Field sizes: request 56, reply 196,
// refusal 148 bytes.
//
// A refusal by a broker itself (no application said it) is the four bytes 'N' 'D' 0xBD detail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nd/status.h"

namespace nd::provider::verbs {

enum class Field : std::uint8_t { kRequest = 56, kReply = 196, kRefusal = 148 };

using Data = std::vector<std::uint8_t>;

// For the wire. `data` is within the limits that the adapter reports.
Data PackPrivateData(bool iwarp, Field field, std::span<const std::uint8_t> data);
// From the wire, as an event carried it.
Data UnpackPrivateData(bool iwarp, std::span<const std::uint8_t> field);

Data RefusalBy(Detail detail);
// The detail when `data` (unpacked) is a broker's own refusal, else kNone.
Detail RefusalDetail(std::span<const std::uint8_t> data);

}  // namespace nd::provider::verbs
