// SPDX-License-Identifier: Apache-2.0
// An application finds the broker of its user or of the system without configuration and never connects to an
// impostor.
#include "client-lib/core/locate.h"

#include <cerrno>
#include <optional>
#include <utility>

#include "base/environment.h"
#include "base/locate.h"
#include "base/os/error_text.h"
#include "base/os/file.h"
#include "base/os/self.h"

namespace nd::client {

Location LocateBroker(const std::string& option) {
  if (!option.empty()) return {option, true};
  const char* named = EnvironmentVariable("NDBROKER_DIR");
  std::string directory = FindBrokerDirectory();
  const bool trust_owner = (named != nullptr && *named != '\0') || directory == kSystemBrokerDirectory;
  return {std::move(directory), trust_owner};
}

bool Trusted(const Location& location, std::uint32_t server, std::uint32_t own,
             std::uint32_t directory_owner) {
  return server == 0 || server == own || (location.trust_owner && server == directory_owner);
}

Result<UniqueFd> ConnectToBroker(const Location& location, const char* name, os::SocketKind kind) {
  const std::string path = ClientSocketPath(location.directory, name);
  if (path.size() > os::LongestSocketPath()) {
    return Status(StatusCode::kInvalidParameter,
                  "the path " + path + " is too long for a socket; use a directory of at most " +
                      std::to_string(os::LongestSocketPath() + 1 - sizeof("/client/broker.sock")) + " bytes");
  }
  UniqueFd socket;
  do {
    socket = os::ConnectLocal(path, kind, os::kPatient);
  } while (!socket && errno == EINTR);
  if (!socket) {
    const int error = errno;
    switch (error) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        return Status(StatusCode::kInsufficientResources, std::string("no socket: ") + os::ErrorText(error),
                      Detail::kTransport, error);
      case EACCES:
      case EPERM:
        return Status(StatusCode::kAccessDenied, "no permission to use the broker at " + path, Detail::kNone,
                      error);
      default:
        return Status(StatusCode::kDeviceNotReady,
                      "no broker answers at " + path + " (" + os::ErrorText(error) +
                          "); start ndbrokerd, or name its directory with NDBROKER_DIR",
                      Detail::kBrokerUnreachable, error);
    }
  }

  const std::optional<std::uint32_t> server = os::PeerUser(socket.get());
  os::FileFacts directory;
  const int error = server ? os::Look(location.directory, &directory) : errno;
  if (error != 0) {
    return Status(StatusCode::kAccessDenied, "cannot tell who serves " + path, Detail::kNone, error);
  }
  const std::uint32_t own = os::EffectiveUserNumber();
  if (!Trusted(location, *server, own, directory.owner)) {
    return Status(StatusCode::kAccessDenied, "the broker at " + path + " is run by uid " +
                                                 std::to_string(*server) + ", expected root or uid " +
                                                 std::to_string(own));
  }
  return socket;
}

}  // namespace nd::client
