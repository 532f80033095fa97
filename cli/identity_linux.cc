// SPDX-License-Identifier: Apache-2.0
// getpwnam and getgrnam are fine here: ndctl has one thread that asks.
#include "cli/identity.h"

#include <grp.h>
#include <pwd.h>

#include <charconv>

namespace nd::cli {
namespace {

bool Number(const std::string& text, std::uint32_t* number) {
  const auto end = std::from_chars(text.data(), text.data() + text.size(), *number);
  return end.ec == std::errc() && end.ptr == text.data() + text.size();
}

}  // namespace

Failure ParseUser(const std::string& text, std::uint32_t* uid) {
  if (Number(text, uid)) return std::nullopt;
  if (const passwd* user = getpwnam(text.c_str())) {
    *uid = user->pw_uid;
    return std::nullopt;
  }
  return Error{
      Exit::kUsage, "this system has no user '" + text + "'", "give a number or a name of getent passwd", {}};
}

Failure ParseGroup(const std::string& text, std::uint32_t* gid) {
  if (Number(text, gid)) return std::nullopt;
  if (const group* entry = getgrnam(text.c_str())) {
    *gid = entry->gr_gid;
    return std::nullopt;
  }
  return Error{
      Exit::kUsage, "this system has no group '" + text + "'", "give a number or a name of getent group", {}};
}

}  // namespace nd::cli
