// SPDX-License-Identifier: Apache-2.0
#include "provider/soft/cm/served_networks.h"

#include <utility>

#include "base/os/given_socket.h"

namespace nd::provider::soft {
namespace {

using os::GivenKind;

// The sockets of a network by their kinds.
struct Sorted {
  UniqueFd routes;
  std::vector<std::pair<GivenKind, UniqueFd>> tcp;
};

// INVALID_PARAMETER: a socket is unfit, or a kind is missing or given twice.
Result<Sorted> Sort(std::uint64_t network, std::vector<UniqueFd> sockets) {
  Sorted sorted;
  std::vector<GivenKind> seen;
  for (UniqueFd& socket : sockets) {
    const os::GivenFacts facts = os::FactsOf(socket.get());
    if (std::string why = os::WhyUnfit(facts, network); !why.empty()) {
      return Status(StatusCode::kInvalidParameter, std::move(why), Detail::kProtocol);
    }
    for (const GivenKind kind : seen) {
      if (kind == facts.kind) {
        return Status(StatusCode::kInvalidParameter, "two sockets of one kind were given; one was expected",
                      Detail::kProtocol);
      }
    }
    seen.push_back(facts.kind);
    if (facts.kind == GivenKind::kRoutes) {
      sorted.routes = std::move(socket);
    } else {
      sorted.tcp.emplace_back(facts.kind, std::move(socket));
    }
  }
  if (!sorted.routes || sorted.tcp.empty()) {
    return Status(
        StatusCode::kInvalidParameter,
        "the sockets of a network namespace are one for routes and at least one for TCP; one of them "
        "is missing",
        Detail::kProtocol);
  }
  return sorted;
}

std::optional<std::vector<Address>> AddressesOf(NetworkRoutes& routes) {
  std::optional<std::vector<Address>> addresses = routes.Addresses();
  if (addresses && addresses->size() > ServedNetworks::kMostAddresses) {
    addresses->resize(ServedNetworks::kMostAddresses);
  }
  return addresses;
}

}  // namespace

Status ServedNetworks::Open(std::uint64_t network, std::vector<UniqueFd> sockets) {
  const Time now = loop_.clock().Now();
  std::erase_if(blocked_, [now](const auto& entry) { return entry.second <= now; });
  if (blocked_.contains(network)) {
    return {StatusCode::kAccessDenied,
            "a process of this network namespace changed a socket that it had given to the broker; try again "
            "in " +
                std::to_string(std::chrono::duration_cast<std::chrono::seconds>(kBlocked).count()) + " s"};
  }
  Result<Sorted> sorted = Sort(network, std::move(sockets));
  if (!sorted.ok()) return sorted.status();
  if (networks_.contains(network)) return {};

  auto routes = std::make_unique<NetworkRoutes>(loop_, std::move(sorted->routes),
                                                [this, network] { OnChanged(network); });
  std::optional<std::vector<Address>> addresses;
  if (routes->Open()) addresses = AddressesOf(*routes);
  if (!addresses) {
    return {StatusCode::kInsufficientResources, "the addresses of the network namespace cannot be read"};
  }
  const Adapter* const adapter = adapters_.AddNetwork(network, std::move(*addresses));
  if (adapter == nullptr) {
    return {StatusCode::kNotSupported,
            "foreign-network-namespaces = \"serve\" needs an [[adapter]] with mode = \"separate\""};
  }
  std::vector<TcpListeners::Served> listeners;
  Status last;
  for (auto& [kind, socket] : sorted->tcp) {
    const Address any = kind == GivenKind::kTcp4 ? Address::V4({}, adapter->options.tcp_port)
                                                 : Address::V6({}, adapter->options.tcp_port);
    // Connections may wait on the socket of the broker before this one.
    TcpListeners::Served kept = listeners_.TakeServed(network, any);
    if (kept.listener) {
      listeners.push_back(std::move(kept));
      continue;
    }
    Status status = os::ListenOnGiven(socket.get(), any);
    if (status.ok()) listeners.push_back({any, host_.AdoptSharedListener(std::move(socket)), false});
    // A namespace may have sockets of a family and no addresses.
    if (!status.ok() && !(status == StatusCode::kInvalidAddress)) last = std::move(status);
  }
  if (last.ok() && listeners.empty()) {
    last = Status(StatusCode::kInvalidAddress, "the network namespace has no usable address");
  }
  if (!last.ok()) {
    for (TcpListeners::Served& each : listeners) listeners_.GiveBack(network, std::move(each));
    adapters_.RemoveNetwork(network);
    return last;
  }
  networks_[network] = std::move(routes);
  listeners_.Serve(adapter->options.name, network, std::move(listeners), [this, network] { Block(network); });
  sink_.OnAdaptersChanged();
  return {};
}

void ServedNetworks::Close(std::uint64_t network) {
  const Adapter* const adapter = adapters_.OfNetwork(network);
  if (adapter == nullptr) return;
  listeners_.StopServing(adapter->options.name);
  networks_.erase(network);
  adapters_.RemoveNetwork(network);
  sink_.OnAdaptersChanged();
}

void ServedNetworks::OnChanged(std::uint64_t network) {
  const auto found = networks_.find(network);
  if (found == networks_.end()) return;
  std::optional<std::vector<Address>> addresses = AddressesOf(*found->second);
  if (addresses && adapters_.RefreshNetwork(network, std::move(*addresses))) sink_.OnAdaptersChanged();
}

void ServedNetworks::Block(std::uint64_t network) {
  blocked_[network] = loop_.clock().Now() + kBlocked;
  // The caller is in the middle of work with a socket of this network.
  loop_.Post([this, network, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) Close(network);
  });
}

Result<std::unique_ptr<TcpSocket>> ServedNetworks::SocketFrom(std::uint64_t network, const Address& local,
                                                              UniqueFd given) {
  if (!given) {
    return Status(StatusCode::kNetworkUnreachable,
                  "no socket of the network namespace of the application came with Connect");
  }
  std::unique_ptr<TcpSocket> socket;
  Status status = os::BindGiven(given.get(), local);
  socket = host_.AdoptShared(std::move(given), [this, network] { Block(network); });
  if (!status.ok()) return status;
  return socket;
}

Result<Address> ServedNetworks::Resolve(const Adapter& adapter, const Address& remote) {
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "the remote address is malformed"};
  if (remote.unspecified() || remote.multicast()) {
    return Status{StatusCode::kNetworkUnreachable, remote.IpToString() + " names no single host"};
  }
  const auto found = networks_.find(adapter.network);
  if (found != networks_.end()) {
    const std::optional<Address> source = found->second->SourceTowards(remote);
    if (source && adapter.Has(*source)) return *source;
  }
  return Status{StatusCode::kNetworkUnreachable,
                "adapter " + adapter.options.name + " has no route to " + remote.IpToString(),
                Detail::kTransport};
}

}  // namespace nd::provider::soft
