// SPDX-License-Identifier: Apache-2.0
// CRC32c (Castagnoli, reflected) as MPA uses it, by the fastest instructions of this CPU.
//
// Values are finished CRCs: Crc32c("123456789") == 0xE3069283, Crc32c of nothing is 0, and
// ExtendCrc32c(Crc32c(a), b) == Crc32c(a + b). Any thread.
#pragma once

#include <cstdint>

#include "provider/soft/wire/bytes.h"

namespace nd::provider::soft::wire {

std::uint32_t ExtendCrc32c(std::uint32_t crc, ByteSpan data);
inline std::uint32_t Crc32c(ByteSpan data) {
  return ExtendCrc32c(0, data);
}

// The implementations, for tests and benchmarks; a variant may be called only where Supported().
enum class CrcVariant : std::uint8_t { kPortable, kSse42, kAvx2, kAvx512 };
inline constexpr CrcVariant kCrcVariants[] = {CrcVariant::kPortable, CrcVariant::kSse42, CrcVariant::kAvx2,
                                              CrcVariant::kAvx512};
bool Supported(CrcVariant variant);
CrcVariant SelectedCrcVariant();
const char* Name(CrcVariant variant);
std::uint32_t ExtendCrc32cWith(CrcVariant variant, std::uint32_t crc, ByteSpan data);

}  // namespace nd::provider::soft::wire
