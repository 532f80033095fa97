// SPDX-License-Identifier: Apache-2.0
// An application finds the broker of its user or of the system without configuration and never connects to an
// impostor.
#include "client-lib/core/locate.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/environment.h"
#include "base/locate.h"

namespace nd::client {

Location LocateBroker(const std::string& option) {
  if (!option.empty()) return {option, true};
  const char* named = EnvironmentVariable("NDBROKER_DIR");
  std::string directory = FindBrokerDirectory();
  const bool trust_owner = (named != nullptr && *named != '\0') || directory == kSystemBrokerDirectory;
  return {std::move(directory), trust_owner};
}

bool Trusted(const Location& location, uid_t server, uid_t own, uid_t directory_owner) {
  return server == 0 || server == own || (location.trust_owner && server == directory_owner);
}

Result<UniqueFd> ConnectToBroker(const Location& location, const char* name, int type) {
  const std::string path = ClientSocketPath(location.directory, name);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return Status(StatusCode::kInvalidParameter,
                  "the path " + path + " is too long for a socket; use a directory of at most " +
                      std::to_string(sizeof(address.sun_path) - sizeof("/client/broker.sock")) + " bytes");
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);

  UniqueFd socket(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!socket) {
    return Status(StatusCode::kInsufficientResources, std::string("no socket: ") + std::strerror(errno),
                  Detail::kTransport, errno);
  }
  int result;
  do {
    result = connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address));
  } while (result != 0 && errno == EINTR);
  if (result != 0) {
    const int error = errno;
    if (error == EACCES || error == EPERM) {
      return Status(StatusCode::kAccessDenied, "no permission to use the broker at " + path, Detail::kNone,
                    error);
    }
    return Status(StatusCode::kDeviceNotReady,
                  "no broker answers at " + path + " (" + std::strerror(error) +
                      "); start ndbrokerd, or name its directory with NDBROKER_DIR",
                  Detail::kBrokerUnreachable, error);
  }

  ucred server{};
  socklen_t length = sizeof(server);
  struct stat directory {};
  if (getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &server, &length) != 0 ||
      stat(location.directory.c_str(), &directory) != 0) {
    return Status(StatusCode::kAccessDenied, "cannot tell who serves " + path, Detail::kNone, errno);
  }
  if (!Trusted(location, server.uid, geteuid(), directory.st_uid)) {
    return Status(StatusCode::kAccessDenied, "the broker at " + path + " is run by uid " +
                                                 std::to_string(server.uid) + ", expected root or uid " +
                                                 std::to_string(geteuid()));
  }
  return socket;
}

}  // namespace nd::client
