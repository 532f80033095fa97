// SPDX-License-Identifier: Apache-2.0
// Who a process belongs to, read from the path of its control group: pure parsing of what the kernel and the
// container engines write.
#pragma once

#include <string>
#include <string_view>

namespace nd::service {

struct CgroupOwner {
  std::string unit;  // "nvmet.service", "app-foo.scope"; empty: none.
  // The container's full id as its engine made it ("3f2a..."), or its name ("web-1") where the engine writes
  // that; behind a pod's uid and a slash when it runs in one: "pod 0a1b.../3f2a...". Empty: none.
  std::string container;
};

// Of the text of /proc/PID/cgroup: the path in the unified hierarchy, or, where processes are not in it (v1
// and hybrid), that of systemd's own hierarchy. Empty: neither is there.
std::string CgroupPath(std::string_view proc_cgroup);

// The innermost unit and container that the path names. Of a user's own manager the unit is the one that it
// runs, as far as there is one.
CgroupOwner OwnerOfCgroup(std::string_view path);

}  // namespace nd::service
