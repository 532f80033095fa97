// SPDX-License-Identifier: Apache-2.0
// The mix is two rounds of multiply and shift. Each can be inverted, which tells the origin of a word.
#include "tests/integrity/stamp.h"

#include <bit>
#include <cstdio>
#include <cstring>

namespace nd::integrity {
namespace {

static_assert(std::endian::native == std::endian::little, "the order of a word's bytes in memory");

constexpr std::uint64_t kFirst = 0xBF58476D1CE4E5B9ULL, kSecond = 0x94D049BB133111EBULL;
constexpr std::uint64_t kWords = std::uint64_t{1} << 48;  // Of one stream.
constexpr std::uint64_t kPlausible = std::uint64_t{1} << 40;

constexpr std::uint64_t Mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= kFirst;
  x ^= x >> 32;
  x *= kSecond;
  return x ^ (x >> 32);
}

constexpr std::uint64_t InverseOf(std::uint64_t odd) {
  std::uint64_t inverse = odd;  // Correct in 3 bits; each step doubles their number.
  for (int i = 0; i < 5; ++i) inverse *= 2 - odd * inverse;
  return inverse;
}

constexpr std::uint64_t Unmix(std::uint64_t x) {
  x ^= x >> 32;
  x *= InverseOf(kSecond);
  x ^= x >> 32;
  x *= InverseOf(kFirst);
  return x ^ (x >> 32);
}
static_assert(Unmix(Mix(0x0123456789ABCDEFULL)) == 0x0123456789ABCDEFULL);

// The input of the mix for a word of the stream, without its index.
std::uint64_t KeyOf(const Stream& stream) {
  return Mix(stream.seed) ^ (std::uint64_t{stream.number} << 48);
}

struct Origin {
  std::uint16_t stream;
  std::uint64_t offset;  // Of the first wrong byte's neighbour at `shift`.
  std::size_t shift;
};

// Finds the stream and the offset for which the bytes at `data[at...]` were made.
std::optional<Origin> Trace(std::uint64_t seed, std::span<const std::byte> data, std::size_t at) {
  for (std::size_t shift = 0; shift < 8 && at + shift + 16 <= data.size(); ++shift) {
    std::uint64_t words[2];
    std::memcpy(words, data.data() + at + shift, sizeof(words));
    const std::uint64_t one = Unmix(words[0]) ^ Mix(seed), two = Unmix(words[1]) ^ Mix(seed);
    const std::uint64_t index = one % kWords;
    if (two == one + 1 && index < kPlausible) {
      return Origin{static_cast<std::uint16_t>(one >> 48), index * 8, shift};
    }
  }
  return std::nullopt;
}

std::string Explain(const Stream& stream, std::uint64_t offset, std::span<const std::byte> data,
                    std::size_t wrong, std::byte expected) {
  char text[256];
  int used = std::snprintf(text, sizeof(text), "stream %u byte %llu is 0x%02x, not 0x%02x", stream.number,
                           static_cast<unsigned long long>(offset + wrong),
                           std::to_integer<unsigned>(data[wrong]), std::to_integer<unsigned>(expected));
  const auto rest = sizeof(text) - static_cast<std::size_t>(used);
  const std::optional<Origin> origin = Trace(stream.seed, data, wrong);
  if (!origin) {
    std::snprintf(text + used, rest, " (difference 0x%02x; not data of this test)",
                  std::to_integer<unsigned>(data[wrong] ^ expected));
    return text;
  }
  const std::uint64_t here = offset + wrong + origin->shift;
  if (origin->stream != stream.number) {
    std::snprintf(text + used, rest, ": data of stream %u, byte %llu", origin->stream,
                  static_cast<unsigned long long>(origin->offset));
  } else if (origin->offset > here) {
    std::snprintf(text + used, rest, ": lost or early, byte %llu is here, %llu too soon",
                  static_cast<unsigned long long>(origin->offset),
                  static_cast<unsigned long long>(origin->offset - here));
  } else {
    std::snprintf(text + used, rest, ": repeated or late, byte %llu is here, %llu behind",
                  static_cast<unsigned long long>(origin->offset),
                  static_cast<unsigned long long>(here - origin->offset));
  }
  return text;
}

}  // namespace

void Fill(const Stream& stream, std::uint64_t offset, std::span<std::byte> to) {
  const std::uint64_t key = KeyOf(stream);
  std::byte* at = to.data();
  std::size_t left = to.size();
  while (left != 0) {
    std::uint64_t word = Mix(key ^ (offset / 8));
    const std::size_t skip = offset % 8;
    if (skip == 0) {
      for (; left >= 8; left -= 8, at += 8, offset += 8) {
        word = Mix(key ^ (offset / 8));
        std::memcpy(at, &word, 8);
      }
      if (left == 0) return;
      word = Mix(key ^ (offset / 8));
    }
    const std::size_t n = left < 8 - skip ? left : 8 - skip;
    std::memcpy(at, reinterpret_cast<const std::byte*>(&word) + skip, n);
    at += n;
    left -= n;
    offset += n;
  }
}

std::optional<std::string> Check(const Stream& stream, std::uint64_t offset,
                                 std::span<const std::byte> data) {
  const std::uint64_t key = KeyOf(stream);
  for (std::size_t i = 0; i < data.size();) {
    const std::uint64_t position = offset + i;
    const std::uint64_t word = Mix(key ^ (position / 8));
    const std::size_t skip = position % 8;
    if (skip == 0 && data.size() - i >= 8 && std::memcmp(data.data() + i, &word, 8) == 0) {
      i += 8;
      continue;
    }
    const auto expected = static_cast<std::byte>(word >> (8 * skip));
    if (data[i] != expected) return Explain(stream, offset, data, i, expected);
    ++i;
  }
  return std::nullopt;
}

std::optional<std::string> CheckCanary(std::span<const std::byte> data) {
  for (std::size_t i = 0; i < data.size(); ++i) {
    if (data[i] == kCanary) continue;
    char text[128];
    std::snprintf(text, sizeof(text), "byte %zu of %zu that belong to nobody was overwritten with 0x%02x", i,
                  data.size(), std::to_integer<unsigned>(data[i]));
    return text;
  }
  return std::nullopt;
}

std::uint64_t Random::Next() {
  state_ += 0x9E3779B97F4A7C15ULL;
  return Mix(state_);
}

}  // namespace nd::integrity
