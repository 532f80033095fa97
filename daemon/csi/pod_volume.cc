// SPDX-License-Identifier: Apache-2.0
#include "daemon/csi/pod_volume.h"

#include <utility>

namespace nd::csi {
namespace {

Status Invalid(std::string text) {
  return {StatusCode::kInvalidParameter, std::move(text)};
}

}  // namespace

Result<pods::Pod> PodOf(const std::map<std::string, std::string>& context) {
  const auto field = [&context](const char* name) {
    const auto found = context.find(std::string("csi.storage.k8s.io/") + name);
    return found == context.end() ? std::string() : found->second;
  };
  if (field("pod.uid").empty()) {
    return Invalid("the kubelet names no pod; the CSIDriver object needs 'podInfoOnMount: true'");
  }
  if (field("ephemeral") != "true") {
    return Invalid(
        "only ephemeral inline volumes exist here; a pod writes 'csi:' in its volume and no claim");
  }
  pods::Pod pod{field("pod.uid"), field("pod.namespace"), field("pod.name"), field("serviceAccount.name")};
  if (Status status = pods::Check(pod); !status.ok()) return status;
  return pod;
}

Status CheckTarget(std::string_view target, std::string_view kubelet, std::string_view uid) {
  const auto wrong = [&] {
    return Invalid("target_path must be " + std::string(kubelet) + "/pods/" +
                   (uid.empty() ? std::string("UID") : std::string(uid)) +
                   "/volumes/kubernetes.io~csi/NAME/mount and is '" + std::string(target) + "'");
  };
  const auto take = [&target](std::string_view part) {
    if (!target.starts_with(part)) return false;
    target.remove_prefix(part.size());
    return true;
  };
  const std::string_view whole = target;
  bool right = take(kubelet) && take("/pods/");
  const std::string_view named = target.substr(0, target.find('/'));
  right = right && pods::IsPodUid(named) && (uid.empty() || named == uid) && take(named) &&
          take("/volumes/kubernetes.io~csi/");
  const std::string_view name = target.substr(0, target.find('/'));
  right = right && pods::IsVolumeId(name) && take(name) && target == "/mount";
  target = whole;
  return right ? Status() : wrong();
}

}  // namespace nd::csi
