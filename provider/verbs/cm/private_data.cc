// SPDX-License-Identifier: Apache-2.0
// The handshake messages of InfiniBand do not carry the length of their private data.
#include "provider/verbs/cm/private_data.h"

#include <algorithm>

namespace nd::provider::verbs {
namespace {

constexpr std::uint8_t kMark = 0xBD;
constexpr std::size_t kTrailer = 2;
constexpr std::size_t kRefusalSize = 4;

}  // namespace

Data PackPrivateData(bool iwarp, Field field, std::span<const std::uint8_t> data) {
  Data packed(data.begin(), data.end());
  if (iwarp) return packed;
  const std::size_t size = static_cast<std::size_t>(field);
  packed.resize(size);
  packed[size - 2] = kMark;
  packed[size - 1] = static_cast<std::uint8_t>(data.size());
  return packed;
}

Data UnpackPrivateData(bool iwarp, std::span<const std::uint8_t> field) {
  Data whole(field.begin(), field.end());
  if (iwarp || field.size() < kTrailer || field[field.size() - 2] != kMark) return whole;
  const std::size_t length = field.back();
  const std::size_t room = field.size() - kTrailer;
  if (length > room) return whole;
  const auto padding = field.subspan(length, room - length);
  if (std::any_of(padding.begin(), padding.end(), [](std::uint8_t byte) { return byte != 0; })) return whole;
  whole.resize(length);
  return whole;
}

Data RefusalBy(Detail detail) {
  return {'N', 'D', kMark, static_cast<std::uint8_t>(detail)};
}

Detail RefusalDetail(std::span<const std::uint8_t> data) {
  if (data.size() != kRefusalSize || data[0] != 'N' || data[1] != 'D' || data[2] != kMark)
    return Detail::kNone;
  if (data[3] == 0 || data[3] > static_cast<std::uint8_t>(Detail::kStaleConnection)) return Detail::kNone;
  return static_cast<Detail>(data[3]);
}

}  // namespace nd::provider::verbs
