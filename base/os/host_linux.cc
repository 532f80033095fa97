// SPDX-License-Identifier: Apache-2.0
#include "base/os/host.h"

#include <grp.h>
#include <pwd.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace nd::os {

std::string HostName() {
  char host[65] = "";
  ::gethostname(host, sizeof host - 1);
  return host;
}

std::string SystemName() {
  utsname name{};
  ::uname(&name);
  return std::string(name.sysname) + " " + name.release + " " + name.version + " " + name.machine;
}

std::optional<std::uint32_t> FindUser(const std::string& name) {
  const passwd* const entry = ::getpwnam(name.c_str());
  return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->pw_uid);
}

std::optional<std::uint32_t> FindGroup(const std::string& name) {
  const group* const entry = ::getgrnam(name.c_str());
  return entry == nullptr ? std::nullopt : std::optional<std::uint32_t>(entry->gr_gid);
}

}  // namespace nd::os
