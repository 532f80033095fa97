// SPDX-License-Identifier: Apache-2.0
// Memory regions and what their rights are to the library.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "nd/nd.h"
#include "verbs-lib/holds.h"
#include "verbs-lib/regions.h"

namespace nd::verbs_lib {

// Programs hold a pointer to `abi`.
struct Region {
  ibv_mr abi{};
  MemoryRegion region;
  LocalRegion local;
  unsigned access = 0;
  Hold domain;
};

inline Region* FromAbi(ibv_mr* region) {
  return reinterpret_cast<Region*>(region);
}

// MemoryAccess of ibv_access_flags: the rights of peers.
std::uint32_t RemoteRightsOf(unsigned access);

int AdviseRegions(ibv_pd* domain, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* pieces,
                  std::uint32_t count);

}  // namespace nd::verbs_lib
