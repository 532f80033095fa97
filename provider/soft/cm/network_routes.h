// SPDX-License-Identifier: Apache-2.0
// The addresses and routes of another network namespace, read through a socket that was made there.
//
// Loop thread only; nothing blocks. The maker of the socket may share it, so it can take answers away or ask
// for more; then addresses are missing, and the reading of one turn is bounded.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::provider::soft {

class NetworkRoutes {
 public:
  // `socket` is a fresh one of os::GivenKind::kRoutes. `changed` runs some time after a change, possibly
  // without one.
  NetworkRoutes(EventLoop& loop, UniqueFd socket, std::function<void()> changed);
  ~NetworkRoutes();
  NetworkRoutes(const NetworkRoutes&) = delete;
  NetworkRoutes& operator=(const NetworkRoutes&) = delete;

  // False: the socket cannot be used.
  [[nodiscard]] bool Open();
  // Sorted, with port 0, without link-local IPv6 addresses. No value: the kernel did not answer.
  std::optional<std::vector<Address>> Addresses();
  // The local address that the kernel uses towards `remote`, with port 0. No value: there is no route.
  std::optional<Address> SourceTowards(const Address& remote);

 private:
  void OnReadable();
  void ChangedLater();

  EventLoop& loop_;
  UniqueFd socket_;
  const std::function<void()> changed_;
  bool watched_ = false;
  std::uint32_t sequence_ = 0;
  std::optional<EventLoop::TimerId> timer_;
};

}  // namespace nd::provider::soft
