// SPDX-License-Identifier: Apache-2.0
// The rule in one place, so that daemon, library and ndctl find the same broker.
#include "base/locate.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/environment.h"

namespace nd {
namespace {

std::string Variable(const char* name) {
  const char* value = EnvironmentVariable(name);
  return value == nullptr ? std::string() : std::string(value);
}

// In /tmp any user can make a directory of that name first and impersonate the broker.
bool TrustedBrokerDirectory(const std::string& directory) {
  struct stat st;
  if (lstat(directory.c_str(), &st) != 0 || !S_ISDIR(st.st_mode)) return false;
  if (st.st_uid != geteuid() && st.st_uid != 0) return false;
  if ((st.st_mode & S_IWOTH) != 0) return false;
  return lstat(ClientSocketPath(directory, kLaneSocketName).c_str(), &st) == 0 && S_ISSOCK(st.st_mode);
}

}  // namespace

std::string OwnBrokerDirectory() {
  if (std::string directory = Variable("NDBROKER_DIR"); !directory.empty()) return directory;
  if (geteuid() == 0) return kSystemBrokerDirectory;
  if (std::string runtime = Variable("XDG_RUNTIME_DIR"); !runtime.empty()) return runtime + "/ndbroker";
  return "/tmp/ndbroker-" + std::to_string(geteuid());
}

std::string ClientSocketPath(const std::string& directory, const char* name) {
  const std::string client = directory + "/" + kClientDirectoryName;
  struct stat st;
  // In a directory without search permission the sockets are assumed to be where a broker puts them.
  const bool there = lstat(client.c_str(), &st) == 0 ? S_ISDIR(st.st_mode) : errno != ENOENT;
  return (there ? client : directory) + "/" + name;
}

std::string FindBrokerDirectory() {
  if (std::string directory = Variable("NDBROKER_DIR"); !directory.empty()) return directory;
  std::string own = OwnBrokerDirectory();
  return TrustedBrokerDirectory(own) ? own : kSystemBrokerDirectory;
}

}  // namespace nd
