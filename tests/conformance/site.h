// SPDX-License-Identifier: Apache-2.0
// The RDMA adapters of the brokers of A and P, from the environment. Immutable after the first call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "nd/types.h"

namespace nd::conformance {

struct SiteAdapter {
  std::string name;
  std::vector<Address> addresses;
};

// $NDBROKER_CONFORMANCE_A and _P, one for each side: ADAPTER=ADDRESS[,ADDRESS]... with blanks between
// adapters.
//   first   the cases run on it: two IPv4 addresses and optionally an IPv6 address
//   second  "another adapter": one address
//   third   optional, the wired adapter: one address, 10.77.0.2 of A and 10.77.0.3 of P
// $NDBROKER_CONFORMANCE_WIRE: NEAR=FAR of A, a blank, NEAR=FAR of P. FAR is the interface of the wired
// adapter, NEAR the other end of its cable, which must be unused. Without it, cases on a wire are excepted.
struct Site {
  std::vector<SiteAdapter> side[2];
  std::string near[2], far[2];
  bool wired() const { return !near[1].empty() && side[0].size() > 2 && side[1].size() > 2; }
  // "" or a description of the error.
  std::string error;
};

const Site& TheSite();
// Parses these texts. Pure.
Site ParseSite(std::string_view a, std::string_view p, std::string_view wire);

}  // namespace nd::conformance
