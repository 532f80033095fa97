// SPDX-License-Identifier: Apache-2.0
// Which changes of state a queue pair may make, and with which attributes. Pure; the rules of the kernel's
// ib_modify_qp_is_ok.
#pragma once

#include <infiniband/verbs.h>

namespace nd::verbs_lib {

// Returns true when `mask` (of ibv_modify_qp) has every attribute that the change requires and no attribute
// that it does not allow.
bool MayModify(ibv_qp_type type, ibv_qp_state from, ibv_qp_state to, int mask);

}  // namespace nd::verbs_lib
