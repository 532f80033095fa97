// SPDX-License-Identifier: Apache-2.0
// The encoding of private data on the wire.
//
// iWARP carries the length, so the data is sent unchanged. InfiniBand and RoCE have fields of fixed size that
// the receiver sees padded with zeros. The last two bytes of the field give the length of the data:
//   field[size-2] = 0xBD, field[size-1] = length, everything between data and trailer is zero.
// A field without that trailer comes from another implementation and is reported whole. Field sizes: request
// 56, reply 196, refusal 148 bytes.
//
// A refusal that a broker decided, and no application, is the four bytes 'N' 'D' 0xBD detail.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nd/status.h"

namespace nd::provider::verbs {

enum class Field : std::uint8_t { kRequest = 56, kReply = 196, kRefusal = 148 };

using Data = std::vector<std::uint8_t>;

// Encodes `data`, which is within the limits that the adapter reports.
Data PackPrivateData(bool iwarp, Field field, std::span<const std::uint8_t> data);
// Decodes the field that an event carried.
Data UnpackPrivateData(bool iwarp, std::span<const std::uint8_t> field);

Data RefusalBy(Detail detail);
// Returns the detail when the decoded `data` is a refusal by a broker, else kNone.
Detail RefusalDetail(std::span<const std::uint8_t> data);

}  // namespace nd::provider::verbs
