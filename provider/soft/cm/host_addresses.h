// SPDX-License-Identifier: Apache-2.0
// The IP addresses of this host, followed through the kernel's route messages.
//
// Loop thread only. Link-local IPv6 addresses are left out: without an interface they name nothing.
#pragma once

#include <functional>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::provider::soft {

// Sorted, port 0, interfaces that are up only. Empty when the kernel cannot tell.
std::vector<Address> ListHostAddresses();

class HostAddressWatch {
 public:
  // `changed` runs after a burst of changes was read; it may be called without any real change.
  HostAddressWatch(EventLoop& loop, std::function<void()> changed);
  ~HostAddressWatch();
  HostAddressWatch(const HostAddressWatch&) = delete;
  HostAddressWatch& operator=(const HostAddressWatch&) = delete;

  // False when the kernel gave no route socket: addresses are then those of the start.
  bool watching() const { return static_cast<bool>(fd_); }

 private:
  void Drain();

  EventLoop& loop_;
  std::function<void()> changed_;
  UniqueFd fd_;
};

}  // namespace nd::provider::soft
