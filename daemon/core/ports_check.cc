// SPDX-License-Identifier: Apache-2.0
// Recounts the tables of ports from the claims of objects. It does not use the functions that maintain the
// tables, so that their errors are found.
#include <map>
#include <string>

#include "daemon/core/ports.h"

namespace nd::core {

void Ports::CheckInvariants(
    const std::vector<std::pair<Handle, const PortClaim*>>& claims, bool leases_end,
    const std::function<void(const Quota::Token&, std::uint32_t uid, Resource)>& charge,
    Report* report) const {
  const auto at = [](const PortKey& key) { return [&key] { return key.local().ToString(); }; };
  std::map<PortKey, std::uint32_t> references;
  std::uint64_t waiting = 0;
  for (const auto& [object, claim] : claims) {
    report->Must(claim->key || !claim->reserving, "reserving without a port");
    report->Must(claim->replaced.empty(), "a replaced hold was not let go");
    if (!claim->key) continue;
    ++references[*claim->key];
    if (!claim->reserving) continue;
    ++waiting;
    const PortEntry* const entry = space_.Find(*claim->key);
    const auto asked =
        entry == nullptr ? asked_.end() : asked_.find(static_cast<std::uint64_t>(entry->endpoint));
    report->Must(asked != asked_.end() && asked->second.object == object, "reservation is not recorded");
  }
  report->Same(asked_.size(), waiting, "reservations");

  for (const auto& [key, entry] : space_.entries()) {
    if (entry.kind == PortKind::kLease) {
      report->Must(references[key]++ == 0, "I1: somebody refers to the lease of ", at(key));
      report->Must(!entry.charge, "I2: a lease is charged");
      report->Must(leases_end, "I7: nothing ends the lease of ", at(key));
    } else {
      charge(entry.charge, entry.owner.uid, Resource::kPorts);
    }
    report->Same(entry.references, references[key], "I1: references of ", at(key));
    for (const auto& [other, unused] : space_.entries()) {
      if (space_.entries().size() > 2000) break;  // Pairs are compared in small worlds only.
      if (&other == &key || other.adapter != key.adapter || other.family != key.family ||
          other.port != key.port) {
        continue;
      }
      report->Must(!key.ip.unspecified() && !other.ip.unspecified(),
                   "I1: wildcard and exact address on the port of ", at(key));
    }
  }
  report->Same(space_.entries().size(), references.size(), "ports");

  for (const auto& [key, reservation] : space_.reservations()) {
    report->Must(adapters_[key.adapter].present, "I12: a reservation on an adapter that is gone");
    const auto covers = [&key = key](const PortKey& other) {
      return other.adapter == key.adapter && other.family == key.family && other.port == key.port &&
             (other.ip == key.ip || other.ip.unspecified() || key.ip.unspecified());
    };
    for (const auto& [other, entry] : space_.entries()) {
      report->Must(!covers(other) || reservation.uid == entry.owner.uid, "I12: ", at(other),
                   " is held although it is reserved");
    }
    for (const auto& [other, unused] : space_.reservations()) {
      report->Must(other == key || !covers(other), "I12: two reservations of ", at(key));
    }
  }

  std::map<std::uint64_t, std::uint32_t> owed;
  for (const auto& [endpoint, idle] : idle_asked_) {
    ++owed[idle.request];
    const PortEntry* const entry = space_.Find(idle.key);
    const auto reservation = space_.reservations().find(idle.key);
    const bool lease = entry != nullptr && entry->kind == PortKind::kLease && entry->reserved &&
                       entry->endpoint == EndpointId{endpoint};
    const bool reserved =
        reservation != space_.reservations().end() && reservation->second.endpoint == EndpointId{endpoint};
    report->Must(idle.request == 0 ? lease : reserved, "I5: a hold is awaited for nobody: ", at(idle.key));
  }
  for (const auto& [request, asked] : reserving_) {
    report->Same(asked.open, owed[request], "I4: answers owed to a ReservePort");
    report->Must(asked.open > 0, "I4: a ReservePort waits for nothing");
    owed.erase(request);
  }
  owed.erase(0);
  report->Must(owed.empty(), "I4: answers owed to no ReservePort");
}

}  // namespace nd::core
