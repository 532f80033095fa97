// SPDX-License-Identifier: Apache-2.0
// Windows has no network namespaces, and no socket that reads the routes of one
// (base/os/given_socket_win.cc).
#include "provider/soft/cm/network_routes.h"

#include <utility>

namespace nd::provider::soft {

NetworkRoutes::NetworkRoutes(EventLoop& loop, UniqueFd socket, std::function<void()> changed)
    : loop_(loop), socket_(std::move(socket)), changed_(std::move(changed)) {}

NetworkRoutes::~NetworkRoutes() {
  if (timer_) loop_.Cancel(*timer_);
}

bool NetworkRoutes::Open() {
  return watched_;
}

std::optional<std::vector<Address>> NetworkRoutes::Addresses() {
  return std::nullopt;
}

std::optional<Address> NetworkRoutes::SourceTowards(const Address&) {
  return std::nullopt;
}

}  // namespace nd::provider::soft
