// SPDX-License-Identifier: Apache-2.0
// Finds the unit and container of a process in the path of its control group. Pure parsing.
#pragma once

#include <string>
#include <string_view>

namespace nd::service {

struct CgroupOwner {
  std::string unit;  // "nvmet.service", "app-foo.scope"; empty: none.
  // The full id of the container ("3f2a..."), or its name ("web-1") for engines that write the name. With a
  // pod: "pod 0a1b.../3f2a...". Empty when there is none.
  std::string container;
};

// Parses the text of /proc/PID/cgroup. Returns the path in the unified hierarchy or, for processes outside it
// (v1 and hybrid), in the hierarchy of systemd. Empty when neither exists.
std::string CgroupPath(std::string_view proc_cgroup);

// Returns the innermost unit and container of the path. Below the manager of a user, the unit is the one that
// this manager runs, if there is one.
CgroupOwner OwnerOfCgroup(std::string_view path);

// Returns the uid of the pod whose control group contains the path; empty when it is in none. Unlike the
// display name of OwnerOfCgroup(), the uid is proof: only groups that the kubelet makes count
// (KUBEPODS/[QOS/]POD at the top of the hierarchy), and users cannot make groups there. A path that begins
// with "/.." is relative to the control group of a broker that is in a pod itself.
std::string PodUidOfCgroup(std::string_view path);

}  // namespace nd::service
