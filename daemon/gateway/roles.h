// SPDX-License-Identifier: Apache-2.0
// Who may do what from afar: a certificate's name has a role, a method needs one. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nd::gateway {

enum class Role { kNone, kViewer, kAdministrator };

struct Roles {
  std::vector<std::string> administrators, viewers;  // Names in certificates.
};

// The strongest role that any of the names has.
Role RoleOf(const Roles& roles, const std::vector<std::string>& names);

// `method` as gRPC names it, "/ndbroker.v1.Admin/GetStatus". What only looks needs a viewer; whatever else
// the Admin service has, now or later, needs an administrator; other services are nobody's.
bool May(Role role, std::string_view method);

}  // namespace nd::gateway
