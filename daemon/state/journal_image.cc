// SPDX-License-Identifier: Apache-2.0
// Encodes and decodes leases. Every field is checked although a checksum covers it, because the file may be
// forged.
#include <algorithm>
#include <cstring>

#include "daemon/state/journal.h"
#include "provider/soft/wire/crc32c.h"

namespace nd::state {
namespace {

using core::Lease;
using core::PortKind;

// "NDLEASE1" in the byte order of this host; the digit is the format's version.
constexpr std::uint64_t kMagic = 0x31455341454C444EULL;
// All bits differ, so that a few flipped bits do not turn one into the other; 0 is neither.
constexpr std::uint64_t kLive = 0x9C4E'A5D3'5A17'E268ULL, kFreed = ~kLive;

struct RawHeader {
  std::uint64_t magic;
  std::uint64_t generation;
  char boot[kMaxBootId];
  std::uint32_t start_count;
  std::int64_t starts[kStarts];
  std::uint8_t zero[28];
  std::uint32_t checksum;  // Of everything before it.
};
static_assert(sizeof(RawHeader) == kHeaderSize);

struct RawRecord {
  std::uint64_t mark;
  std::uint64_t generation;
  std::uint64_t born;
  std::uint32_t uid, pid;
  std::uint32_t index;
  std::uint16_t port;
  std::uint8_t family, kind;
  std::uint8_t ip[16];
  char adapter[kMaxAdapterName];
  std::uint8_t zero[4];
  std::uint32_t checksum;  // Of everything between the mark and this.
};
static_assert(sizeof(RawRecord) == kRecordSize && kMarkSize == sizeof RawRecord::mark);

template <typename Raw>
std::uint32_t Checksum(const Raw& raw, std::size_t from) {
  const std::size_t to = offsetof(Raw, checksum);
  return provider::soft::wire::Crc32c(
      provider::soft::wire::ByteSpan(reinterpret_cast<const std::byte*>(&raw) + from, to - from));
}

// Returns the text of a fixed field, which ends at its first zero. Only zeros may follow.
template <std::size_t N>
std::optional<std::string> Text(const char (&field)[N]) {
  const char* const end = std::find(field, field + N, '\0');
  if (std::any_of(end, field + N, [](char c) { return c != '\0'; })) return std::nullopt;
  return std::string(field, end);
}

template <std::size_t N>
void PutText(const std::string& text, char (&field)[N]) {
  std::memcpy(field, text.data(), std::min(text.size(), N));
}

// True when only the digit of the version differs.
bool IsOfAnotherVersion(std::span<const std::byte> image) {
  std::uint64_t magic = 0;
  constexpr std::uint64_t kName = 0x00FFFFFFFFFFFFFFULL;
  if (image.size() < sizeof magic) return false;
  std::memcpy(&magic, image.data(), sizeof magic);
  return magic != kMagic && (magic & kName) == (kMagic & kName);
}

std::optional<Header> DecodeHeader(std::span<const std::byte> image) {
  RawHeader raw;
  if (image.size() < sizeof raw) return std::nullopt;
  std::memcpy(&raw, image.data(), sizeof raw);
  if (raw.magic != kMagic || raw.checksum != Checksum(raw, 0) || raw.start_count > kStarts) {
    return std::nullopt;
  }
  Header header;
  header.generation = raw.generation;
  header.boot = Text(raw.boot).value_or("");
  for (std::uint32_t i = 0; i < raw.start_count; ++i) header.starts.push_back(Time(Duration(raw.starts[i])));
  return header;
}

std::optional<Lease> DecodeLease(const RawRecord& raw) {
  Lease lease;
  const std::optional<std::string> adapter = Text(raw.adapter);
  const auto family = static_cast<Address::Family>(raw.family);
  const std::size_t width = family == Address::Family::kIpv4 ? 4 : 16;
  if (!adapter || adapter->empty() || raw.port == 0 ||
      raw.kind > static_cast<int>(PortKind::kSharedEndpoint) ||
      (family != Address::Family::kIpv4 && family != Address::Family::kIpv6)) {
    return std::nullopt;
  }
  lease.adapter = *adapter;
  lease.local =
      Address::FromParts(family, std::string_view(reinterpret_cast<const char*>(raw.ip), width), raw.port);
  lease.kind = static_cast<PortKind>(raw.kind);
  lease.holder = {raw.uid, raw.pid, raw.born};
  return lease;
}

template <std::size_t N, typename Raw>
std::array<std::byte, N> Bytes(const Raw& raw) {
  std::array<std::byte, N> bytes;
  static_assert(sizeof raw == N);
  std::memcpy(bytes.data(), &raw, N);
  return bytes;
}

}  // namespace

Recovery Recover(std::span<const std::byte> image, std::string_view boot) {
  Recovery out;
  out.ignored_bytes = image.size();
  if (image.empty()) return out;
  std::optional<Header> header = DecodeHeader(image);
  if (!header) {
    out.end = IsOfAnotherVersion(image) ? Recovery::End::kOtherVersion : Recovery::End::kBadHeader;
    return out;
  }
  out.header = std::move(*header);
  if (out.header.boot != boot) {
    out.end = Recovery::End::kOtherBoot;
    return out;
  }
  std::span<const std::byte> rest = image.subspan(kHeaderSize);
  out.end = Recovery::End::kWhole;
  for (std::uint32_t index = 0; !rest.empty(); ++index) {
    RawRecord raw;
    std::optional<Lease> lease;
    if (rest.size() >= sizeof raw) {
      std::memcpy(&raw, rest.data(), sizeof raw);
      const bool marked = raw.mark == kLive || raw.mark == kFreed;
      if (marked && raw.checksum == Checksum(raw, kMarkSize) && raw.index == index &&
          raw.generation == out.header.generation) {
        lease = DecodeLease(raw);
      }
    }
    if (!lease) {
      out.end = Recovery::End::kBadRecord;
      break;
    }
    if (raw.mark == kFreed) {
      ++out.freed;
    } else {
      out.leases.push_back(std::move(*lease));
    }
    rest = rest.subspan(kRecordSize);
  }
  out.ignored_bytes = rest.size();
  return out;
}

std::array<std::byte, kRecordSize> EncodeRecord(std::uint64_t generation, std::uint32_t index,
                                                const Lease& lease) {
  RawRecord raw{};
  raw.mark = kLive;
  raw.generation = generation;
  raw.born = lease.holder.born;
  raw.uid = lease.holder.uid;
  raw.pid = lease.holder.pid;
  raw.index = index;
  raw.port = lease.local.port();
  raw.family = static_cast<std::uint8_t>(lease.local.family());
  raw.kind = static_cast<std::uint8_t>(lease.kind);
  std::memcpy(raw.ip, lease.local.ip().data(), lease.local.ip().size());
  PutText(lease.adapter, raw.adapter);
  raw.checksum = Checksum(raw, kMarkSize);
  return Bytes<kRecordSize>(raw);
}

std::array<std::byte, kMarkSize> EncodeFreed() {
  return Bytes<kMarkSize>(kFreed);
}

std::array<std::byte, kHeaderSize> EncodeHeader(const Header& header) {
  RawHeader raw{};
  raw.magic = kMagic;
  raw.generation = header.generation;
  PutText(header.boot, raw.boot);
  const std::size_t count = std::min(header.starts.size(), kStarts);
  raw.start_count = static_cast<std::uint32_t>(count);
  for (std::size_t i = 0; i < count; ++i) {
    raw.starts[i] = header.starts[header.starts.size() - count + i].time_since_epoch().count();
  }
  raw.checksum = Checksum(raw, 0);
  return Bytes<kHeaderSize>(raw);
}

}  // namespace nd::state
