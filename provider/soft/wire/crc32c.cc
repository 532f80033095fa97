// SPDX-License-Identifier: Apache-2.0
// Selects the CRC for this CPU once. Contains the table version for CPUs without a faster one.
#include "provider/soft/wire/crc32c.h"

#include <array>

#include "provider/soft/wire/check.h"
#include "provider/soft/wire/crc32c_variants.h"

namespace nd::provider::soft::wire {
namespace internal {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

constexpr Tables MakeTables() {
  Tables tables{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t value = byte;
    for (int bit = 0; bit < 8; ++bit) value = (value & 1) != 0 ? (value >> 1) ^ kCrcPolynomial : value >> 1;
    tables[0][byte] = value;
  }
  for (std::size_t slice = 1; slice < 8; ++slice) {
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
      const std::uint32_t previous = tables[slice - 1][byte];
      tables[slice][byte] = tables[0][previous & 0xFF] ^ (previous >> 8);
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

std::uint32_t CrcPortable(std::uint32_t state, const std::byte* data, std::size_t size) {
  for (; size >= 8; data += 8, size -= 8) {
    const std::uint32_t low = state ^ LoadLittle32(data);
    const std::uint32_t high = LoadLittle32(data + 4);
    state = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^
            kTables[4][low >> 24] ^ kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^
            kTables[1][high >> 16 & 0xFF] ^ kTables[0][high >> 24];
  }
  for (; size != 0; ++data, --size) state = kTables[0][(state ^ ToInt(*data)) & 0xFF] ^ (state >> 8);
  return state;
}

}  // namespace internal

namespace {

using ExtendFunction = std::uint32_t (*)(std::uint32_t, const std::byte*, std::size_t);

// Null: this CPU does not have it.
ExtendFunction FunctionOf(CrcVariant variant) {
  if (variant == CrcVariant::kPortable) return internal::CrcPortable;
#if defined(__x86_64__)
  if (variant == CrcVariant::kSse42) return internal::CpuHasSse42() ? internal::CrcSse42 : nullptr;
  if (variant == CrcVariant::kAvx2) return internal::CpuHasAvx2() ? internal::CrcAvx2 : nullptr;
  return internal::CpuHasAvx512() ? internal::CrcAvx512 : nullptr;
#else
  return nullptr;
#endif
}

ExtendFunction Selected() {
  static const ExtendFunction function = FunctionOf(SelectedCrcVariant());
  return function;
}

}  // namespace

bool Supported(CrcVariant variant) {
  return FunctionOf(variant) != nullptr;
}

CrcVariant SelectedCrcVariant() {
  CrcVariant best = CrcVariant::kPortable;
  for (const CrcVariant variant : kCrcVariants) {
    if (Supported(variant)) best = variant;
  }
  return best;
}

const char* Name(CrcVariant variant) {
  constexpr const char* kNames[] = {"portable", "sse4.2", "avx2+vpclmulqdq", "avx512+vpclmulqdq"};
  return kNames[static_cast<std::size_t>(variant)];
}

std::uint32_t ExtendCrc32cWith(CrcVariant variant, std::uint32_t crc, ByteSpan data) {
  const ExtendFunction function = FunctionOf(variant);
  Check(function != nullptr, "this CPU has the CRC variant that is asked for");
  return ~function(~crc, data.data(), data.size());
}

std::uint32_t ExtendCrc32c(std::uint32_t crc, ByteSpan data) {
  return ~Selected()(~crc, data.data(), data.size());
}

}  // namespace nd::provider::soft::wire
