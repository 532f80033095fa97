// SPDX-License-Identifier: Apache-2.0
// The service control manager opens no sockets for a service.
#include "base/os/inherited_sockets.h"

namespace nd::os {

Result<InheritedSockets> InheritedSockets::Check(std::vector<InheritedDescriptor> descriptors,
                                                 const std::vector<Wanted>&) {
  if (descriptors.empty()) return InheritedSockets();
  return Status(StatusCode::kInvalidParameter,
                "descriptor " + descriptors.front().name + " was inherited; this system passes none on");
}

UniqueFd InheritedSockets::Take(const std::string&) {
  return {};
}

}  // namespace nd::os
