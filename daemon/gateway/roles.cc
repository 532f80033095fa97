// SPDX-License-Identifier: Apache-2.0
// Methods need an administrator unless they are listed as read-only, so that a new method is never open by
// accident.
#include "daemon/gateway/roles.h"

#include <algorithm>

namespace nd::gateway {
namespace {

constexpr std::string_view kService = "/ndbroker.v1.Admin/";
constexpr std::string_view kReadOnlyMethods[] = {
    "GetStatus",         "GetPolicy",       "GetStats",      "CheckPolicy", "CheckConfig",  "ListAdapters",
    "ListListeners",     "ListConnections", "ListEndpoints", "ListPorts",   "ListSessions", "ListQueuePairs",
    "ListMemoryRegions", "ListHistory",     "Watch",         "Diagnose"};

bool Has(const std::vector<std::string>& list, const std::vector<std::string>& names) {
  return std::ranges::any_of(
      names, [&](const std::string& name) { return std::ranges::find(list, name) != list.end(); });
}

}  // namespace

Role RoleOf(const Roles& roles, const std::vector<std::string>& names) {
  if (Has(roles.administrators, names)) return Role::kAdministrator;
  return Has(roles.viewers, names) ? Role::kViewer : Role::kNone;
}

bool May(Role role, std::string_view method) {
  if (role == Role::kNone || !method.starts_with(kService)) return false;
  if (role == Role::kAdministrator) return true;
  method.remove_prefix(kService.size());
  return std::ranges::find(kReadOnlyMethods, method) != std::end(kReadOnlyMethods);
}

}  // namespace nd::gateway
