// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_service.h"

namespace nd::verbs_lib {
namespace {

constexpr std::uint32_t kServiceMagic = 0x4E444251;  // "NDBQ"

void Put(std::vector<std::byte>* to, std::uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) to->push_back(static_cast<std::byte>(value >> shift));
}

std::uint32_t Get(std::span<const std::byte> from) {
  std::uint32_t value = 0;
  for (const std::byte one : from.first(4)) value = value << 8 | std::to_integer<std::uint32_t>(one);
  return value;
}

}  // namespace

std::vector<std::byte> EncodeDatagramService(const DatagramService& service,
                                             std::span<const std::byte> data) {
  std::vector<std::byte> encoded;
  encoded.reserve(kDatagramServiceSize + data.size());
  Put(&encoded, kServiceMagic);
  Put(&encoded, service.number);
  Put(&encoded, service.qkey);
  encoded.insert(encoded.end(), data.begin(), data.end());
  return encoded;
}

std::optional<DatagramService> ParseDatagramService(std::span<const std::byte> data) {
  if (data.size() < kDatagramServiceSize || Get(data) != kServiceMagic) return {};
  return DatagramService{Get(data.subspan(4)), Get(data.subspan(8))};
}

}  // namespace nd::verbs_lib
