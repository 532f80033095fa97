// SPDX-License-Identifier: Apache-2.0
// The ids that ndctl shows: a letter for the kind and the handle in hexadecimal, "c-3f2a000001000001".
//
// c connection, l listener, e shared endpoint, s session.
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

}  // namespace nd::service
