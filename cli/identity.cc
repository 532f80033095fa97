// SPDX-License-Identifier: Apache-2.0
#include "cli/identity.h"

#include <charconv>
#include <optional>

#include "base/os/host.h"

namespace nd::cli {
namespace {

Failure Parse(const std::string& text, const char* kind,
              std::optional<std::uint32_t> (*find)(const std::string& name), std::uint32_t* number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *number);
  if (end.ec == std::errc() && end.ptr == text.data() + text.size()) return std::nullopt;
  if (const std::optional<std::uint32_t> found = find(text)) {
    *number = *found;
    return std::nullopt;
  }
  return Error{Exit::kUsage,
               std::string("this system has no ") + kind + " '" + text + "'",
               std::string("give a number or the name of a ") + kind + " of this system",
               {}};
}

}  // namespace

Failure ParseUser(const std::string& text, std::uint32_t* uid) {
  return Parse(text, "user", os::FindUser, uid);
}

Failure ParseGroup(const std::string& text, std::uint32_t* gid) {
  return Parse(text, "group", os::FindGroup, gid);
}

}  // namespace nd::cli
