// SPDX-License-Identifier: Apache-2.0
// Reading and writing integers at unaligned places of a frame. The caller has checked the bounds.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace nd::provider::soft::wire {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

inline ByteSpan AsBytes(std::span<const std::uint8_t> data) {
  return std::as_bytes(data);
}

namespace internal {
inline std::uint8_t Swap(std::uint8_t v) {
  return v;
}
inline std::uint16_t Swap(std::uint16_t v) {
  return __builtin_bswap16(v);
}
inline std::uint32_t Swap(std::uint32_t v) {
  return __builtin_bswap32(v);
}
inline std::uint64_t Swap(std::uint64_t v) {
  return __builtin_bswap64(v);
}
}  // namespace internal

template <std::unsigned_integral T>
T LoadBig(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::little ? internal::Swap(value) : value;
}

template <std::unsigned_integral T>
void StoreBig(std::byte* to, T value) {
  if constexpr (std::endian::native == std::endian::little) value = internal::Swap(value);
  std::memcpy(to, &value, sizeof value);
}

// The MPA CRC is the only little-endian field of the protocol.
inline std::uint32_t LoadLittle32(const std::byte* from) {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  return std::endian::native == std::endian::big ? internal::Swap(value) : value;
}

inline void StoreLittle32(std::byte* to, std::uint32_t value) {
  if constexpr (std::endian::native == std::endian::big) value = internal::Swap(value);
  std::memcpy(to, &value, sizeof value);
}

inline std::uint8_t ToInt(std::byte value) {
  return std::to_integer<std::uint8_t>(value);
}

}  // namespace nd::provider::soft::wire
