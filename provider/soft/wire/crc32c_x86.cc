// SPDX-License-Identifier: Apache-2.0
// CRC32c with the crc32 instruction, three streams at a time, and by carry-less folding of wide vectors.
//
// Folding: a reflected block A that stands D bits before a block B is replaced by A * x^D, reduced to 128
// bits by two 64-bit multiplications with x^(D+32) and x^(D-32) mod P; see "Fast CRC Computation for Generic
// Polynomials Using PCLMULQDQ Instruction" (Gopal et al., Intel, 2009).
#if defined(__x86_64__)

#include <immintrin.h>

#include <cstring>

#include "provider/soft/wire/crc32c_variants.h"

#define ND_TARGET_SSE __attribute__((target("sse4.2,pclmul")))
#define ND_TARGET_AVX2 __attribute__((target("avx2,vpclmulqdq,sse4.2,pclmul")))
#define ND_TARGET_AVX512 __attribute__((target("avx512f,avx512dq,avx512vl,vpclmulqdq,sse4.2,pclmul")))

namespace nd::provider::soft::wire::internal {
namespace {

// x^n mod P, reflected in 32 bits.
constexpr std::uint32_t PowerOfX(std::uint64_t n) {
  std::uint32_t value = 0x80000000u;
  for (; n != 0; --n) value = (value & 1) != 0 ? (value >> 1) ^ kCrcPolynomial : value >> 1;
  return value;
}

constexpr std::size_t kLong = 1344, kShort = 168;  // Bytes of one of three streams.

template <std::size_t kStream>
struct StreamConstants {
  static constexpr std::uint64_t kFirst = PowerOfX(8 * 2 * kStream - 33);
  static constexpr std::uint64_t kSecond = PowerOfX(8 * kStream - 33);
};

template <std::uint64_t kBits>
struct FoldConstants {
  static constexpr auto kLow = static_cast<long long>(std::uint64_t{PowerOfX(kBits + 32)} << 1);
  static constexpr auto kHigh = static_cast<long long>(std::uint64_t{PowerOfX(kBits - 32)} << 1);
};

inline std::uint64_t Load64(const std::byte* from) {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

ND_TARGET_SSE inline std::uint32_t OneStream(std::uint32_t state, const std::byte* data, std::size_t size) {
  std::uint64_t wide = state;
  for (; size >= 8; data += 8, size -= 8) wide = _mm_crc32_u64(wide, Load64(data));
  auto narrow = static_cast<std::uint32_t>(wide);
  for (; size != 0; ++data, --size) narrow = _mm_crc32_u8(narrow, static_cast<std::uint8_t>(*data));
  return narrow;
}

ND_TARGET_SSE inline std::uint64_t Multiply(std::uint64_t state, std::uint64_t constant) {
  const __m128i product = _mm_clmulepi64_si128(_mm_cvtsi64_si128(static_cast<long long>(state)),
                                               _mm_cvtsi64_si128(static_cast<long long>(constant)), 0);
  return static_cast<std::uint64_t>(_mm_cvtsi128_si64(product));
}

// The instruction has a latency of three and a throughput of one, so three streams hide it.
template <std::size_t kStream>
ND_TARGET_SSE inline std::uint32_t ThreeStreams(std::uint32_t state, const std::byte* data) {
  std::uint64_t a = state, b = 0, c = 0;
  for (std::size_t i = 0; i < kStream; i += 8) {
    a = _mm_crc32_u64(a, Load64(data + i));
    b = _mm_crc32_u64(b, Load64(data + kStream + i));
    c = _mm_crc32_u64(c, Load64(data + 2 * kStream + i));
  }
  using Constants = StreamConstants<kStream>;
  const std::uint64_t moved = Multiply(a, Constants::kFirst) ^ Multiply(b, Constants::kSecond);
  return static_cast<std::uint32_t>(_mm_crc32_u64(0, moved) ^ c);
}

ND_TARGET_SSE inline __m128i Fold128(__m128i from, __m128i constants, __m128i onto) {
  return _mm_xor_si128(
      _mm_xor_si128(_mm_clmulepi64_si128(from, constants, 0x00), _mm_clmulepi64_si128(from, constants, 0x11)),
      onto);
}

ND_TARGET_SSE inline std::uint32_t Reduce(__m128i value) {
  const std::uint64_t low = _mm_crc32_u64(0, static_cast<std::uint64_t>(_mm_extract_epi64(value, 0)));
  return static_cast<std::uint32_t>(
      _mm_crc32_u64(low, static_cast<std::uint64_t>(_mm_extract_epi64(value, 1))));
}

ND_TARGET_AVX2 inline __m256i Fold256(__m256i from, __m256i constants, __m256i onto) {
  return _mm256_xor_si256(_mm256_xor_si256(_mm256_clmulepi64_epi128(from, constants, 0x00),
                                           _mm256_clmulepi64_epi128(from, constants, 0x11)),
                          onto);
}

ND_TARGET_AVX512 inline __m512i Fold512(__m512i from, __m512i constants, __m512i onto) {
  constexpr int kXorOfThree = 0x96;
  return _mm512_ternarylogic_epi64(_mm512_clmulepi64_epi128(from, constants, 0x00),
                                   _mm512_clmulepi64_epi128(from, constants, 0x11), onto, kXorOfThree);
}

ND_TARGET_AVX2 inline __m256i Load256(const std::byte* from) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}

ND_TARGET_AVX512 inline __m512i Load512(const std::byte* from) {
  return _mm512_loadu_si512(from);
}

}  // namespace

bool CpuHasSse42() {
  return __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul");
}

bool CpuHasAvx2() {
  return CpuHasSse42() && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("vpclmulqdq");
}

bool CpuHasAvx512() {
  return CpuHasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

ND_TARGET_SSE std::uint32_t CrcSse42(std::uint32_t state, const std::byte* data, std::size_t size) {
  for (; size >= 3 * kLong; data += 3 * kLong, size -= 3 * kLong) state = ThreeStreams<kLong>(state, data);
  for (; size >= 3 * kShort; data += 3 * kShort, size -= 3 * kShort)
    state = ThreeStreams<kShort>(state, data);
  return OneStream(state, data, size);
}

ND_TARGET_AVX2 std::uint32_t CrcAvx2(std::uint32_t state, const std::byte* data, std::size_t size) {
  constexpr std::size_t kStep = 128;
  if (size < 2 * kStep) return CrcSse42(state, data, size);
  using Far = FoldConstants<1024>;
  using Near = FoldConstants<256>;
  using Last = FoldConstants<128>;
  const __m256i far = _mm256_set_epi64x(Far::kHigh, Far::kLow, Far::kHigh, Far::kLow);
  const __m256i near = _mm256_set_epi64x(Near::kHigh, Near::kLow, Near::kHigh, Near::kLow);
  const __m128i last = _mm_set_epi64x(Last::kHigh, Last::kLow);
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(state));
  __m256i a = _mm256_xor_si256(Load256(data), _mm256_zextsi128_si256(start));
  __m256i b = Load256(data + 32), c = Load256(data + 64), d = Load256(data + 96);
  data += kStep;
  size -= kStep;
  for (; size >= kStep; data += kStep, size -= kStep) {
    a = Fold256(a, far, Load256(data));
    b = Fold256(b, far, Load256(data + 32));
    c = Fold256(c, far, Load256(data + 64));
    d = Fold256(d, far, Load256(data + 96));
  }
  d = Fold256(Fold256(Fold256(a, near, b), near, c), near, d);
  for (; size >= 32; data += 32, size -= 32) d = Fold256(d, near, Load256(data));
  const __m128i whole = Fold128(_mm256_castsi256_si128(d), last, _mm256_extracti128_si256(d, 1));
  return OneStream(Reduce(whole), data, size);
}

ND_TARGET_AVX512 std::uint32_t CrcAvx512(std::uint32_t state, const std::byte* data, std::size_t size) {
  constexpr std::size_t kStep = 256;
  if (size < kStep) return CrcSse42(state, data, size);
  using Far = FoldConstants<2048>;
  using Near = FoldConstants<512>;
  using Last = FoldConstants<128>;
  const __m512i far = _mm512_broadcast_i32x4(_mm_set_epi64x(Far::kHigh, Far::kLow));
  const __m512i near = _mm512_broadcast_i32x4(_mm_set_epi64x(Near::kHigh, Near::kLow));
  const __m128i last = _mm_set_epi64x(Last::kHigh, Last::kLow);
  const __m128i start = _mm_cvtsi32_si128(static_cast<int>(state));
  __m512i a = _mm512_xor_si512(Load512(data), _mm512_zextsi128_si512(start));
  __m512i b = Load512(data + 64), c = Load512(data + 128), d = Load512(data + 192);
  data += kStep;
  size -= kStep;
  for (; size >= kStep; data += kStep, size -= kStep) {
    a = Fold512(a, far, Load512(data));
    b = Fold512(b, far, Load512(data + 64));
    c = Fold512(c, far, Load512(data + 128));
    d = Fold512(d, far, Load512(data + 192));
  }
  d = Fold512(Fold512(Fold512(a, near, b), near, c), near, d);
  for (; size >= 64; data += 64, size -= 64) d = Fold512(d, near, Load512(data));
  __m128i whole = _mm512_castsi512_si128(d);
  whole = Fold128(whole, last, _mm512_extracti64x2_epi64(d, 1));
  whole = Fold128(whole, last, _mm512_extracti64x2_epi64(d, 2));
  whole = Fold128(whole, last, _mm512_extracti64x2_epi64(d, 3));
  return OneStream(Reduce(whole), data, size);
}

}  // namespace nd::provider::soft::wire::internal

#endif  // __x86_64__
