// SPDX-License-Identifier: Apache-2.0
#include "base/os/wildcard.h"

#include <cctype>
#include <string_view>

namespace nd::os {
namespace {

char Small(char c) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
}

// Returns true when the set at the beginning of `pattern` ("[a-z]...") contains `c`, and sets *end behind it.
// An unfinished set stands for the bracket itself.
bool InSet(std::string_view pattern, char c, std::size_t* end) {
  std::size_t at = 1;
  const bool inverted = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (inverted) ++at;
  bool found = false;
  for (std::size_t first = at; at < pattern.size() && (pattern[at] != ']' || at == first); ++at) {
    const char low = Small(pattern[at]);
    char high = low;
    if (at + 2 < pattern.size() && pattern[at + 1] == '-' && pattern[at + 2] != ']') {
      high = Small(pattern[at + 2]);
      at += 2;
    }
    found = found || (low <= c && c <= high);
  }
  if (at >= pattern.size()) {
    *end = 1;
    return c == '[';
  }
  *end = at + 1;
  return found != inverted;
}

bool Matches(std::string_view pattern, std::string_view text) {
  while (!pattern.empty()) {
    if (pattern[0] == '*') {
      pattern.remove_prefix(1);
      for (std::size_t skipped = 0; skipped <= text.size(); ++skipped) {
        if (Matches(pattern, text.substr(skipped))) return true;
      }
      return false;
    }
    if (text.empty()) return false;
    std::size_t end = 1;
    if (pattern[0] == '[') {
      if (!InSet(pattern, Small(text[0]), &end)) return false;
    } else if (pattern[0] != '?') {
      if (pattern[0] == '\\' && pattern.size() > 1) pattern.remove_prefix(1);
      if (Small(pattern[0]) != Small(text[0])) return false;
    }
    pattern.remove_prefix(end);
    text.remove_prefix(1);
  }
  return text.empty();
}

}  // namespace

bool MatchesWildcard(const std::string& pattern, const std::string& text) {
  return Matches(pattern, text);
}

}  // namespace nd::os
