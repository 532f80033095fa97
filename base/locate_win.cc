// SPDX-License-Identifier: Apache-2.0
// One broker for each host, a service. A user can have another one by NDBROKER_DIR.
#include "base/locate.h"

#include <cstdlib>

namespace nd {
namespace {

std::string Variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : std::string(value);
}

std::string SystemDirectory() {
  const std::string data = Variable("ProgramData");
  return (data.empty() ? "C:\\ProgramData" : data) + "\\NdBroker";
}

}  // namespace

std::string OwnBrokerDirectory() {
  const std::string directory = Variable("NDBROKER_DIR");
  return directory.empty() ? SystemDirectory() : directory;
}

// The sockets are pipes, which are in no directory and have their access lists of their own.
std::string ClientSocketPath(const std::string& directory, const char* name) {
  return directory + "\\" + kClientDirectoryName + "\\" + name;
}

std::string FindBrokerDirectory() {
  return OwnBrokerDirectory();
}

}  // namespace nd
