// SPDX-License-Identifier: Apache-2.0
// Address handles: where a datagram goes, and from which of the adapter's addresses.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

#include "nd/types.h"
#include "verbs-lib/holds.h"

namespace nd::verbs_lib {

struct AddressHandle {
  ibv_ah abi{};
  Address destination;     // Without a port.
  std::size_t source = 0;  // Index into the adapter's addresses.
  Hold domain;
};

inline AddressHandle* FromAbi(ibv_ah* handle) {
  return reinterpret_cast<AddressHandle*>(handle);
}

}  // namespace nd::verbs_lib
