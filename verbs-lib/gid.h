// SPDX-License-Identifier: Apache-2.0
// IP addresses as GIDs. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "nd/types.h"

namespace nd::verbs_lib {

ibv_gid GidOf(const Address& address);
Address AddressOf(const ibv_gid& gid);

}  // namespace nd::verbs_lib
