// SPDX-License-Identifier: Apache-2.0
// The Kubernetes pod of a client: the kernel says which one, the kubelet its name.
#pragma once

#include <string>

#include "daemon/core/event.h"

namespace nd::service {

// Replaces "pod UID/CONTAINER" in `who.container` by "pod NAMESPACE/NAME/CONTAINER" when the pod is
// registered in the directory `pods` (daemon/pods/pod_registry.h). The uid comes from PodUidOfCgroup(), so a
// client cannot choose it. Reads files; any thread but the loop.
void NamePod(const std::string& pods, core::Identity& who);

}  // namespace nd::service
