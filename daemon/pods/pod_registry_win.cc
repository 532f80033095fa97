// SPDX-License-Identifier: Apache-2.0
// The CSI driver that registers pods runs on Linux alone.
#include "daemon/pods/pod_registry.h"

namespace nd::pods {

Status Registry::Add(const std::string&, const Pod&) const {
  return {StatusCode::kNotSupported, "pods are not registered on this system"};
}

Status Registry::Remove(const std::string&) const {
  return Status::Ok();
}

Result<std::optional<Pod>> Registry::OfVolume(const std::string&) const {
  return std::optional<Pod>();
}

Result<std::optional<Pod>> Registry::OfUid(const std::string&) const {
  return std::optional<Pod>();
}

}  // namespace nd::pods
