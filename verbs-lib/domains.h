// SPDX-License-Identifier: Apache-2.0
// Protection domains, parent domains and thread domains. A queue pair uses regions of its own domain only.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>

#include "verbs-lib/holds.h"

namespace nd::verbs_lib {

// Of a protection domain, or of the one that a parent domain is made of. Never 0.
std::uint32_t NumberOf(const ibv_pd* domain);

// Of an object in the domain.
Hold HoldOf(ibv_pd* domain);

ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* wanted);
ibv_td* AllocThreadDomain(ibv_context* context, ibv_td_init_attr* wanted);
int DeallocThreadDomain(ibv_td* domain);

}  // namespace nd::verbs_lib
