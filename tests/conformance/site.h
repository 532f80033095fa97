// SPDX-License-Identifier: Apache-2.0
// RDMA adapters that are there before the suite starts: which ones A's and P's brokers offer, from the
// environment. Immutable after the first call.
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
//   first   where the cases run: two IPv4 addresses and, if there is one, an IPv6 address
//   second  "another adapter": one address
//   third   the wired one, if there is one: one address, 10.77.0.2 of A and 10.77.0.3 of P
// $NDBROKER_CONFORMANCE_WIRE: NEAR=FAR of A, a blank, NEAR=FAR of P. FAR is the wired adapter's interface,
// NEAR the other end of that cable, which nobody else uses. Without it, cases on a wire are excepted.
struct Site {
  std::vector<SiteAdapter> side[2];
  std::string near[2], far[2];
  bool wired() const { return !near[1].empty() && side[0].size() > 2 && side[1].size() > 2; }
  // "" or what is wrong with it.
  std::string error;
};

const Site& TheSite();
// Pure: TheSite() with these texts.
Site ParseSite(std::string_view a, std::string_view p, std::string_view wire);

}  // namespace nd::conformance
