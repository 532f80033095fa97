// SPDX-License-Identifier: Apache-2.0
// Listening sockets that a service manager opened before the start of the broker, each found by its path.
//
// While no broker runs, clients wait at them instead of being refused. Used before the loop runs.
#pragma once

#include <string>
#include <vector>

#include "base/os/service_manager.h"
#include "base/os/socket.h"
#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::os {

class InheritedSockets {
 public:
  // A socket of the broker.
  struct Wanted {
    std::string path;
    SocketKind kind = SocketKind::kStream;
  };

  InheritedSockets() = default;
  // Every descriptor must be one of `wanted`, listen, and be the only one at its path. Otherwise
  // INVALID_PARAMETER; the message has the descriptor, its kind and the remedy.
  static Result<InheritedSockets> Check(std::vector<InheritedDescriptor> descriptors,
                                        const std::vector<Wanted>& wanted);

  // Returns the socket of `path`, non-blocking, once; no descriptor when none was inherited.
  UniqueFd Take(const std::string& path);
  bool empty() const { return sockets_.empty(); }

 private:
  struct Socket {
    std::string path;
    UniqueFd fd;
  };
  std::vector<Socket> sockets_;
};

}  // namespace nd::os
