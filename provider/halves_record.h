// SPDX-License-Identifier: Apache-2.0
// The datagram of the fd lane with a message between the two halves of a provider whose client half makes the
// connections (docs/wire.md, section 7).
//
// A broker with such a provider sets kHalvesMessages in the token. The first message of a session comes from
// the client. The bytes behind the record are the message, which the provider alone understands. There are
// no descriptors and no acknowledgement.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "nd/status.h"
#include "provider/hand_off.h"

namespace nd::provider {

// A bit of TokenRecord::features.
inline constexpr std::uint32_t kHalvesMessages = 0x10;
inline constexpr std::size_t kMaxHalvesMessage = 16 * 1024;

struct HalvesRecord {
  static constexpr std::uint32_t kMagic = 0x4E444856;  // "NDHV"

  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(HalvesRecord);       // Without the message.
  TransportKind transport = TransportKind::kNone;  // Names the provider.
  std::uint32_t length = 0;                        // Of the message.
};

struct HalvesMessage {
  TransportKind transport = TransportKind::kNone;
  std::span<const std::byte> bytes;  // Inside the datagram.
};

// True: the datagram begins as this record does, whatever its version.
bool IsHalvesRecord(std::span<const std::byte> datagram);
// REMOTE_ERROR: another version or size, a length that is not that of the datagram, or a longer message than
// kMaxHalvesMessage.
Result<HalvesMessage> DecodeHalvesRecord(std::span<const std::byte> datagram);
// `message` has at most kMaxHalvesMessage bytes.
std::vector<std::byte> EncodeHalvesRecord(TransportKind transport, std::span<const std::byte> message);

}  // namespace nd::provider
