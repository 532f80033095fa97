// SPDX-License-Identifier: Apache-2.0
// Sends each command to the half that owns the id: addresses of this host to the loop, others to TCP.
#include "provider/soft/cm/soft_cm.h"

#include <optional>
#include <utility>

#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/host_addresses.h"
#include "provider/soft/cm/inbound_ids.h"
#include "provider/soft/cm/loop_cm.h"
#include "provider/soft/cm/route.h"
#include "provider/soft/cm/served_networks.h"
#include "provider/soft/cm/system_tcp.h"
#include "provider/soft/cm/tcp_cm.h"

namespace nd::provider::soft {
namespace {

class SoftCm final : public ConnectionManager {
 public:
  SoftCm(const Options& options, AdapterSet adapters, EventLoop& loop, CmSink& sink, os::KeptSockets* kept)
      : loop_(loop),
        sink_(sink),
        adapters_(std::move(adapters)),
        loop_cm_(sink, ids_),
        host_(loop, kept != nullptr ? *kept : nothing_kept_),
        tcp_(options, host_, sink, adapters_, ids_),
        networks_(loop, sink, adapters_, host_, tcp_.listeners()),
        watch_(loop, [this] { OnHostChanged(); }) {}

  Status Start() { return tcp_.listeners().Start(); }

  std::vector<AdapterDescription> adapters() const override { return adapters_.Describe(); }

  void Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) override {
    sink_.OnReserved(endpoint, tcp_.listeners().Reserve(endpoint, adapter, local));
  }
  void Release(EndpointId endpoint) override { tcp_.listeners().Release(endpoint); }
  void Listen(EndpointId endpoint, const std::string&, const Address&) override {
    tcp_.listeners().Listen(endpoint);
  }
  void Unlisten(EndpointId endpoint) override { tcp_.listeners().Unlisten(endpoint); }

  void Connect(const ConnectParams& params) override { ConnectFrom(params, {}); }
  void ConnectFrom(const ConnectParams& params, UniqueFd socket) override {
    const Adapter* adapter = adapters_.Find(params.adapter);
    if (adapter == nullptr) {
      sink_.OnFailed(params.id, {StatusCode::kNetworkUnreachable, "adapter " + params.adapter + " is gone"});
      return;
    }
    if (const Adapter* own = adapters_.Owner(params.remote, adapter->network)) {
      loop_cm_.Connect(params, own->options.name);
    } else if (adapter->network == 0) {
      tcp_.Connect(params, *adapter);
    } else {
      ConnectOver(params, *adapter, std::move(socket));
    }
  }

  void Accept(CmId id, const AcceptParams& params) override {
    loop_cm_.Owns(id) ? loop_cm_.Accept(id, params) : tcp_.Accept(id, params);
  }
  void Reject(CmId id, Detail detail, const Bytes& private_data) override {
    loop_cm_.Owns(id) ? loop_cm_.Reject(id, detail, private_data) : tcp_.Reject(id, detail, private_data);
  }
  void Confirm(CmId id) override { loop_cm_.Owns(id) ? loop_cm_.Confirm(id) : tcp_.Confirm(id); }
  void Abort(CmId id) override { loop_cm_.Owns(id) ? loop_cm_.Abort(id) : tcp_.Abort(id); }

  // On soft the client half disconnects (client_disconnects), so this only answers.
  void Disconnect(CmId id) override {
    sink_.OnDisconnected(id,
                         {StatusCode::kNotSupported, "soft connections are disconnected by their client"});
  }

  Result<HandOff> TakeHandOff(CmId id) override {
    return loop_cm_.Owns(id) ? loop_cm_.TakeHandOff(id) : tcp_.TakeHandOff(id);
  }

  Result<Address> Resolve(const std::string& adapter_name, const Address& remote) const override {
    if (const Adapter* adapter = adapters_.Find(adapter_name)) {
      return adapter->network == 0 ? routes_.Find(*adapter, remote, loop_.moment())
                                   : networks_.Resolve(*adapter, remote);
    }
    if (!adapter_name.empty()) {
      return Status{StatusCode::kInvalidAddress, "there is no adapter " + adapter_name};
    }
    Result<Address> last = Status{StatusCode::kNetworkUnreachable, "there is no adapter"};
    for (const Adapter& adapter : adapters_.adapters()) {
      last = routes_.Find(adapter, remote, loop_.moment());
      if (last.ok()) break;
    }
    return last;
  }

  bool serves_networks() const override { return adapters_.serves_networks(); }
  Status OpenNetwork(std::uint64_t network, std::vector<UniqueFd> sockets) override {
    return networks_.Open(network, std::move(sockets));
  }
  void CloseNetwork(std::uint64_t network) override { networks_.Close(network); }

  bool LeaveListeners() override { return tcp_.listeners().Leave(); }

  std::uint32_t handshakes() const override { return loop_cm_.handshakes() + tcp_.handshakes(); }

 private:
  void ConnectOver(const ConnectParams& params, const Adapter& adapter, UniqueFd given) {
    Result<std::unique_ptr<TcpSocket>> socket =
        networks_.SocketFrom(adapter.network, params.local, std::move(given));
    if (socket.ok()) return tcp_.ConnectFrom(params, adapter, std::move(socket).value());
    const Status& why = socket.status();
    sink_.OnFailed(params.id, why == StatusCode::kInvalidAddress
                                  ? Status(StatusCode::kNetworkUnreachable, why.message(), Detail::kTransport,
                                           why.native())
                                  : why);
  }
  void OnHostChanged() {
    if (!adapters_.Refresh(ListHostAddresses())) return;
    tcp_.listeners().Sync();
    sink_.OnAdaptersChanged();
  }

  const EventLoop& loop_;
  CmSink& sink_;
  AdapterSet adapters_;
  InboundIds ids_;
  os::KeptSockets nothing_kept_;
  LoopCm loop_cm_;
  SystemTcp host_;
  TcpCm tcp_;
  mutable ServedNetworks networks_;  // Resolve() asks the kernel through its sockets.
  mutable RouteFinder routes_;       // The same in the network namespace of the broker.
  HostAddressWatch watch_;
};

}  // namespace

Result<std::unique_ptr<ConnectionManager>> MakeSoftCm(const Options& options, EventLoop& loop, CmSink& sink,
                                                      os::KeptSockets* kept) {
  Result<AdapterSet> adapters = AdapterSet::Make(options, ListHostAddresses());
  if (!adapters.ok()) return adapters.status();
  auto manager = std::make_unique<SoftCm>(options, std::move(adapters).value(), loop, sink, kept);
  if (Status status = manager->Start(); !status.ok()) return status;
  return std::unique_ptr<ConnectionManager>(std::move(manager));
}

}  // namespace nd::provider::soft
