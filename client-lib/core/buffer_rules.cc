// SPDX-License-Identifier: Apache-2.0
#include "client-lib/core/buffer_rules.h"

#include <algorithm>
#include <cstring>
#include <string>

namespace nd::client {

Status CopyPrivateData(std::span<const std::byte> data, void* buffer, std::size_t* length, bool ndk) {
  if (length == nullptr) return {StatusCode::kAccessViolation, "no place for the length"};
  const std::size_t room = *length;
  if (buffer == nullptr && room > 0) {
    return {ndk ? StatusCode::kInvalidParameter : StatusCode::kAccessViolation,
            "no buffer, but a length of " + std::to_string(room)};
  }
  *length = data.size();
  if (!data.empty() && room > 0) std::memcpy(buffer, data.data(), std::min(room, data.size()));
  if (room >= data.size() || (ndk && room == 0)) return {};
  return {ndk ? StatusCode::kBufferTooSmall : StatusCode::kBufferOverflow,
          "the data has " + std::to_string(data.size()) + " bytes, the buffer " + std::to_string(room)};
}

Status CopyAddress(const Address& address, void* buffer, std::size_t* length, bool ndk) {
  if (length == nullptr) return {StatusCode::kAccessViolation, "no place for the length"};
  alignas(8) std::byte storage[32] = {};
  const std::size_t needed = address.ToSockaddr(storage);
  const std::size_t room = *length;
  *length = needed;
  if (room < needed) {
    return {ndk ? StatusCode::kBufferTooSmall : StatusCode::kBufferOverflow,
            "the address has " + std::to_string(needed) + " bytes, the buffer " + std::to_string(room)};
  }
  if (buffer == nullptr)
    return {StatusCode::kAccessViolation, "no buffer, but a length of " + std::to_string(room)};
  std::memcpy(buffer, storage, needed);
  return {};
}

}  // namespace nd::client
