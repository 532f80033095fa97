// SPDX-License-Identifier: Apache-2.0
// Finds the local address that the kernel uses for a remote address. Sends nothing and never blocks.
#pragma once

#include <optional>

#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/adapter_set.h"

namespace nd::provider::soft {

// Keeps a socket of each family from the beginning: making and closing one takes longer than a lookup.
class RouteFinder {
 public:
  RouteFinder();

  // Returns an address of `adapter` with port 0. INVALID_ADDRESS: `remote` is malformed. NETWORK_UNREACHABLE:
  // there is no route from this adapter, or `remote` cannot be a destination.
  Result<Address> Find(const Adapter& adapter, const Address& remote);

 private:
  std::optional<Address> PreferredSource(const Address& remote);

  UniqueFd v4_, v6_;
};

}  // namespace nd::provider::soft
