// SPDX-License-Identifier: Apache-2.0
// One place for the rule, so that daemon, library and ndctl can never look at different brokers.
#include "base/locate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>

namespace nd {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

// In /tmp anybody may make a directory of that name first and answer in the broker's place.
bool TrustedBrokerDirectory(const std::string& directory) {
  struct stat st;
  if (lstat(directory.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return false;
  if (st.st_uid != geteuid() && st.st_uid != 0) return false;
  if ((st.st_mode & S_IWOTH) != 0) return false;
  return lstat((directory + "/" + kBrokerSocketName).c_str(), &st) == 0 && S_ISSOCK(st.st_mode);
}

}  // namespace

std::string OwnBrokerDirectory() {
  if (std::string directory = Environment("NDBROKER_DIR"); !directory.empty()) return directory;
  if (geteuid() == 0) return kSystemBrokerDirectory;
  if (std::string runtime = Environment("XDG_RUNTIME_DIR"); !runtime.empty()) return runtime + "/ndbroker";
  return "/tmp/ndbroker-" + std::to_string(geteuid());
}

std::string FindBrokerDirectory() {
  if (std::string directory = Environment("NDBROKER_DIR"); !directory.empty()) return directory;
  std::string own = OwnBrokerDirectory();
  return TrustedBrokerDirectory(own) ? own : kSystemBrokerDirectory;
}

}  // namespace nd
