// SPDX-License-Identifier: Apache-2.0
// The service control manager keeps no sockets.
#include "base/os/kept_sockets.h"

namespace nd::os {

StoredSockets::StoredSockets(const ServiceManager& manager, std::vector<InheritedDescriptor>*)
    : manager_(manager) {}

UniqueFd StoredSockets::Take(const NetworkAddress&) {
  return {};
}

bool StoredSockets::Keep(const NetworkAddress& at, int fd) {
  return manager_.Store(at.address.ToString(), fd);
}

void StoredSockets::Drop(const NetworkAddress&) {}

void StoredSockets::DropUnclaimed() {}

}  // namespace nd::os
