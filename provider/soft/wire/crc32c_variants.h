// SPDX-License-Identifier: Apache-2.0
// Internal to crc32c. Each function extends a raw (not inverted) CRC state. The x86 variants require their
// CPU features.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nd::provider::soft::wire::internal {

inline constexpr std::uint32_t kCrcPolynomial = 0x82F63B78;  // Reflected.

std::uint32_t CrcPortable(std::uint32_t state, const std::byte* data, std::size_t size);

#if defined(__x86_64__)
std::uint32_t CrcSse42(std::uint32_t state, const std::byte* data, std::size_t size);
std::uint32_t CrcAvx2(std::uint32_t state, const std::byte* data, std::size_t size);
std::uint32_t CrcAvx512(std::uint32_t state, const std::byte* data, std::size_t size);
bool CpuHasSse42();
bool CpuHasAvx2();
bool CpuHasAvx512();
#endif

}  // namespace nd::provider::soft::wire::internal
