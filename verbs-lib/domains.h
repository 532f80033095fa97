// SPDX-License-Identifier: Apache-2.0
// Protection domains, parent domains and thread domains. They group objects; they do not separate the memory
// of one process.
#pragma once

#include <infiniband/verbs.h>

namespace nd::verbs_lib {

ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* wanted);
ibv_td* AllocThreadDomain(ibv_context* context, ibv_td_init_attr* wanted);
int DeallocThreadDomain(ibv_td* domain);

}  // namespace nd::verbs_lib
