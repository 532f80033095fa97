// SPDX-License-Identifier: Apache-2.0
// Finds the local address that the kernel uses for a remote address. Sends nothing and never blocks.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/cm/adapter_set.h"

namespace nd::provider::soft {

// Keeps a socket of each family from the beginning: making and closing one takes longer than a lookup. Where
// the kernel reports changes of addresses, routes and rules, it also keeps answers until the next change: the
// report is there before the change returns to its maker, and Find() looks for it first, once in each moment
// of the event loop. Some settings are not reported (address labels of IPv6, for example), so an answer is
// used for a second at most.
class RouteFinder {
 public:
  RouteFinder();
  ~RouteFinder();

  // Returns an address of `adapter` with port 0. `moment`: of EventLoop::moment(). INVALID_ADDRESS: `remote`
  // is malformed. NETWORK_UNREACHABLE: there is no route from this adapter, or `remote` cannot be a
  // destination.
  Result<Address> Find(const Adapter& adapter, const Address& remote, std::uint64_t moment);

 private:
  // The source address that the kernel prefers for `remote`. No value, with errno: there is no route.
  std::optional<Address> PreferredSource(const Address& remote);

  class Kept;
  std::unique_ptr<Kept> kept_;  // Null: the kernel reports no changes.
  UniqueFd v4_, v6_;
};

}  // namespace nd::provider::soft
