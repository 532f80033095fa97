// SPDX-License-Identifier: Apache-2.0
// Converts ids to and from the text that ndctl shows: a letter for the kind and the handle in hexadecimal,
// "c-3f2a000001000001".
//
// c connection, l listener, e shared endpoint, q queue pair, s session.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nd::service {

inline std::string IdText(char kind, std::uint64_t value) {
  char text[18] = {kind, '-'};
  const auto result = std::to_chars(text + 2, text + sizeof text, value, 16);
  return {text, result.ptr};
}

inline std::optional<std::uint64_t> ParseId(char kind, std::string_view text) {
  if (text.size() < 3 || text[0] != kind || text[1] != '-') return std::nullopt;
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto result = std::from_chars(text.data() + 2, end, value, 16);
  if (result.ec != std::errc() || result.ptr != end) return std::nullopt;
  return value;
}

// The id of a memory region: the number of its session in hexadecimal, as in the id of the session, and its
// own number: "1f:17".
struct RegionId {
  std::uint64_t session = 0, number = 0;
};
inline std::string RegionIdText(std::uint64_t session, std::uint64_t number) {
  return IdText('s', session).substr(2) + ":" + std::to_string(number);
}
inline std::optional<RegionId> ParseRegionId(std::string_view text) {
  const std::size_t colon = text.find(':');
  if (colon == text.npos) return std::nullopt;
  RegionId id;
  const char* const end = text.data() + text.size();
  const auto session = std::from_chars(text.data(), text.data() + colon, id.session, 16);
  const auto number = std::from_chars(text.data() + colon + 1, end, id.number);
  const bool good = session.ec == std::errc() && session.ptr == text.data() + colon &&
                    number.ec == std::errc() && number.ptr == end;
  return good ? std::optional(id) : std::nullopt;
}

}  // namespace nd::service
