// SPDX-License-Identifier: Apache-2.0
// The rights of remote callers: a name in a certificate has a role, and a method needs one. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nd::gateway {

enum class Role { kNone, kViewer, kAdministrator };

struct Roles {
  std::vector<std::string> administrators, viewers;  // Names in certificates.
};

// Returns the strongest role of the names.
Role RoleOf(const Roles& roles, const std::vector<std::string>& names);

// `method` is the name in gRPC, "/ndbroker.v1.Admin/GetStatus". Read-only methods need a viewer, every other
// method of the Admin service an administrator; no role may call other services.
bool May(Role role, std::string_view method);

}  // namespace nd::gateway
