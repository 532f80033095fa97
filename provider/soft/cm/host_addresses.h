// SPDX-License-Identifier: Apache-2.0
// The IP addresses of this host, followed through the kernel's route messages.
//
// Loop thread only. Link-local IPv6 addresses are left out.
#pragma once

#include <functional>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::provider::soft {

// Sorted, with port 0, of interfaces that are up. Empty when the kernel returns an error.
std::vector<Address> ListHostAddresses();

// Link-local IPv6 addresses are ambiguous without an interface.
bool IsLinkLocal(const Address& address);

class HostAddressWatch {
 public:
  // `changed` runs after a burst of messages was read, possibly without a real change.
  HostAddressWatch(EventLoop& loop, std::function<void()> changed);
  ~HostAddressWatch();
  HostAddressWatch(const HostAddressWatch&) = delete;
  HostAddressWatch& operator=(const HostAddressWatch&) = delete;

  // False when no route socket could be opened; the addresses then stay those of the start.
  bool watching() const { return static_cast<bool>(fd_); }

 private:
  void Drain();

  EventLoop& loop_;
  std::function<void()> changed_;
  UniqueFd fd_;
};

}  // namespace nd::provider::soft
