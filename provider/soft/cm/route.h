// SPDX-License-Identifier: Apache-2.0
// Which local address the kernel would use towards a remote one. Nothing is sent; never blocks.
#pragma once

#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/adapter_set.h"

namespace nd::provider::soft {

// Port 0, an address of `adapter`. INVALID_ADDRESS: `remote` is malformed. NETWORK_UNREACHABLE: no route from
// this adapter, or nothing that can be connected to.
Result<Address> FindRoute(const Adapter& adapter, const Address& remote);

}  // namespace nd::provider::soft
