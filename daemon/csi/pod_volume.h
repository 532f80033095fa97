// SPDX-License-Identifier: Apache-2.0
// Judges what the kubelet asks of the CSI driver. Pure functions.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "daemon/pods/pod_registry.h"
#include "nd/status.h"

namespace nd::csi {

// The pod that the kubelet names in the context of a volume (podInfoOnMount). INVALID_PARAMETER: the volume
// is not ephemeral and inline, or a field is missing or malformed; the message names the remedy.
Result<pods::Pod> PodOf(const std::map<std::string, std::string>& context);

// SUCCESS when `target` is a path at which the kubelet with this directory may mount a volume of this pod:
// KUBELET/pods/UID/volumes/kubernetes.io~csi/NAME/mount. An empty uid accepts every pod.
Status CheckTarget(std::string_view target, std::string_view kubelet, std::string_view uid);

}  // namespace nd::csi
