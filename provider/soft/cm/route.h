// SPDX-License-Identifier: Apache-2.0
// Finds the local address that the kernel uses for a remote address. Sends nothing and never blocks.
#pragma once

#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/adapter_set.h"

namespace nd::provider::soft {

// Returns an address of `adapter` with port 0. INVALID_ADDRESS: `remote` is malformed. NETWORK_UNREACHABLE:
// there is no route from this adapter, or `remote` cannot be a destination.
Result<Address> FindRoute(const Adapter& adapter, const Address& remote);

}  // namespace nd::provider::soft
