// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/pod_name.h"

#include <optional>

#include "daemon/ops/logging.h"
#include "daemon/pods/pod_registry.h"
#include "daemon/service/cgroup_name.h"

namespace nd::service {

void NamePod(const std::string& pods, core::Identity& who) {
  const std::string uid = PodUidOfCgroup(who.cgroup);
  if (uid.empty()) return;
  const Result<std::optional<pods::Pod>> pod = pods::Registry(pods).OfUid(uid);
  if (!pod.ok()) return ops::LogWarning("pod", "pod " + uid + " has no name: " + pod.status().ToString());
  if (!*pod) return;
  who.pod = {(*pod)->namespace_name, (*pod)->name, (*pod)->service_account};
  const std::size_t id = who.container.find('/');
  who.container = "pod " + (*pod)->namespace_name + "/" + (*pod)->name +
                  (id == who.container.npos ? std::string() : who.container.substr(id));
}

}  // namespace nd::service
