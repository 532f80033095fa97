// SPDX-License-Identifier: Apache-2.0
// Adapters of other network namespaces, on sockets that clients made there (foreign-network-namespaces =
// "serve"). The broker needs no privilege in them and does not enter them.
//
// Clients may share these sockets. A network whose socket stops listening or makes the broker wait is closed
// and not opened again for kBlocked. Loop thread only.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/network_routes.h"
#include "provider/soft/cm/system_tcp.h"
#include "provider/soft/cm/tcp_listeners.h"

namespace nd::provider::soft {

class ServedNetworks {
 public:
  static constexpr Duration kBlocked = std::chrono::seconds(10);
  // Of a network (docs/limits.md).
  static constexpr std::size_t kMostAddresses = 32;

  // All of them outlive this object.
  ServedNetworks(EventLoop& loop, CmSink& sink, AdapterSet& adapters, SystemTcp& host,
                 TcpListeners& listeners)
      : loop_(loop), sink_(sink), adapters_(adapters), host_(host), listeners_(listeners) {}
  ServedNetworks(const ServedNetworks&) = delete;
  ServedNetworks& operator=(const ServedNetworks&) = delete;

  // The statuses of ConnectionManager::OpenNetwork.
  Status Open(std::uint64_t network, std::vector<UniqueFd> sockets);
  void Close(std::uint64_t network);

  // A socket for connecting from `local` of this network. INVALID_ADDRESS, INSUFFICIENT_RESOURCES.
  Result<std::unique_ptr<TcpSocket>> SocketFrom(std::uint64_t network, const Address& local, UniqueFd given);
  // Statuses of RouteFinder::Find().
  Result<Address> Resolve(const Adapter& adapter, const Address& remote);

 private:
  void OnChanged(std::uint64_t network);
  // Closes the network soon, and refuses it for a while.
  void Block(std::uint64_t network);

  EventLoop& loop_;
  CmSink& sink_;
  AdapterSet& adapters_;
  SystemTcp& host_;
  TcpListeners& listeners_;
  std::map<std::uint64_t, std::unique_ptr<NetworkRoutes>> networks_;
  std::map<std::uint64_t, Time> blocked_;  // Until then.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nd::provider::soft
