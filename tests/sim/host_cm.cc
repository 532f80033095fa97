// SPDX-License-Identifier: Apache-2.0
#include "tests/sim/host_cm.h"
#include "provider/verbs/transport.h"

#include <sys/resource.h>

#include <utility>

namespace nd::sim {
namespace {

using provider::CmId;
using provider::EndpointId;
using provider::soft::Adapter;

// During its lifetime the process can open no descriptor, as at its descriptor limit.
class NoDescriptors {
 public:
  explicit NoDescriptors(bool on) : on_(on) {
    if (!on_) return;
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &none);
  }
  ~NoDescriptors() {
    if (on_) setrlimit(RLIMIT_NOFILE, &before_);
  }
  NoDescriptors(const NoDescriptors&) = delete;
  NoDescriptors& operator=(const NoDescriptors&) = delete;

 private:
  const bool on_;
  rlimit before_{};
};

// Keeps torn managers reachable, so that their memory is not reported as leaked.
std::vector<std::unique_ptr<provider::soft::TcpCm>>& TornManagers() {
  static auto* const all = new std::vector<std::unique_ptr<provider::soft::TcpCm>>;
  return *all;
}

}  // namespace

// Passes reports on, unless the broker is dying, and makes the stream of an established same-host pair.
class HostCm::Sink final : public provider::CmSink {
 public:
  explicit Sink(HostCm& cm) : cm_(cm) {}
  void OnReserved(EndpointId, const Status&) override {}
  void OnRequest(const provider::InboundRequest& request) override {
    Pass([&] { cm_.sink_.OnRequest(request); });
  }
  void OnReached(CmId id) override {
    Pass([&] { cm_.sink_.OnReached(id); });
  }
  void OnReply(CmId id, bool known, const ReadLimits& peer, const Bytes& data) override {
    Pass([&] { cm_.sink_.OnReply(id, known, peer, data); });
  }
  void OnRejected(CmId id, const Status& status, const Bytes& data) override {
    Pass([&] { cm_.sink_.OnRejected(id, status, data); });
  }
  void OnFailed(CmId id, const Status& status) override {
    Pass([&] { cm_.sink_.OnFailed(id, status); });
  }
  void OnEstablished(CmId id) override {
    Pass([&] {
      if (cm_.loop_.Owns(id)) MakeStream(id);
      cm_.sink_.OnEstablished(id);
    });
  }
  void OnLost(CmId id, const Status& status, const Bytes& data) override {
    Pass([&] { cm_.sink_.OnLost(id, status, data); });
  }
  void OnPeerClosed(CmId, DisconnectReason) override {}
  void OnDisconnected(CmId, const Status&) override {}
  void OnAdaptersChanged() override {}

 private:
  template <typename Work>
  void Pass(Work work) {
    const Plenty plenty;
    if (!cm_.memory_.gone()) work();
  }
  // Called for the active side first, then at once for the passive one.
  void MakeStream(CmId id) {
    if (other_ != 0) {
      cm_.local_ends_[id] = std::exchange(other_, 0);
      return;
    }
    const EndId first = cm_.net_.MakePair(Owner::kBroker, cm_.options_.host);
    cm_.local_ends_[id] = first;
    other_ = first + 1;
  }

  HostCm& cm_;
  EndId other_ = 0;
};

HostCm::HostCm(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric,
               provider::CmSink& sink, Memory& memory)
    : options_(std::move(options)),
      schedule_(schedule),
      dice_(dice),
      net_(net),
      sink_(sink),
      memory_(memory),
      set_(provider::soft::AdapterSet::Make(options_.soft, {}).value()),
      sim_tcp_(options_.host, schedule, dice, net, memory),
      own_sink_(std::make_unique<Sink>(*this)),
      loop_(*own_sink_, ids_),
      tcp_(std::make_unique<provider::soft::TcpCm>(options_.soft, sim_tcp_, *own_sink_, set_, ids_)),
      device_(fabric, sink, ids_, options_.device) {
  static_cast<void>(tcp_->listeners().Start());
  sim_tcp_.faults = options_.tcp;
}

HostCm::~HostCm() {
  sim_tcp_.Die();
  for (const auto& [id, end] : local_ends_) net_.Close(end, true);
  if (memory_.torn()) TornManagers().push_back(std::move(tcp_));
}

void HostCm::Stop() {
  tcp_.reset();
}

void HostCm::Settle() {
  faults = {0, 0};
  sim_tcp_.faults = {};
}

std::vector<provider::AdapterDescription> HostCm::adapters() const {
  std::vector<provider::AdapterDescription> all;
  for (provider::AdapterDescription& d : set_.Describe()) {
    if (!hidden_.contains(d.info.name)) all.push_back(std::move(d));
  }
  if (options_.device.empty() || hidden_.contains(options_.device)) return all;
  provider::AdapterDescription device;
  device.info = set_.Describe()[0].info;
  device.info.name = options_.device;
  device.info.addresses = options_.device_addresses;
  device.info.max_inbound_read_limit = options_.device_limits_tight ? 1 : 255;
  device.info.max_outbound_read_limit = options_.device_limits_tight ? 2 : 255;
  device.info.max_caller_data = 56;
  device.info.max_callee_data = 148;
  device.reserve_ports = true;
  device.client_disconnects = false;
  all.push_back(std::move(device));
  return all;
}

Result<Address> HostCm::Resolve(const std::string& name, const Address& remote) const {
  for (const provider::AdapterDescription& d : adapters()) {
    if (d.info.name != name) continue;
    for (const Address& own : d.info.addresses) {
      if (own.family() == remote.family()) return own.WithPort(0);
    }
    return Status{StatusCode::kNetworkUnreachable, "no address of that family"};
  }
  return Status{StatusCode::kInvalidAddress, "there is no adapter " + name};
}

void HostCm::Hide(const std::string& adapter, bool hidden) {
  if (hidden) {
    hidden_.insert(adapter);
  } else {
    hidden_.erase(adapter);
  }
  sink_.OnAdaptersChanged();
}

std::vector<Address> HostCm::AddressesOf(const Reservation& reservation) const {
  if (!reservation.local.unspecified()) return {reservation.local};
  const Adapter* const adapter = set_.Find(reservation.adapter);
  std::vector<Address> all;
  for (const Address& own : adapter == nullptr ? options_.device_addresses : adapter->addresses) {
    if (own.family() == reservation.local.family()) all.push_back(own.WithPort(reservation.local.port()));
  }
  return all;
}

void HostCm::Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) {
  reserved_[endpoint] = {adapter, local};
  if (!dice_.Chance(faults.reserve_slow)) return GrantNow(endpoint);
  schedule_.After(dice_.Millis(1, 400), [this, endpoint, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired() && !memory_.gone()) GrantNow(endpoint);
  });
}

void HostCm::GrantNow(EndpointId endpoint) {
  const auto found = reserved_.find(endpoint);
  // The endpoint may have been given up meanwhile; the answer is sent anyway.
  if (found == reserved_.end()) return sink_.OnReserved(endpoint, {});
  const Reservation& wanted = found->second;
  Status status;
  if (OfDevice(wanted.adapter)) {
    status = sim_tcp_.Grant(wanted.local);
  } else if (!memory_.Survives(
                 [&] { status = tcp_->listeners().Reserve(endpoint, wanted.adapter, wanted.local); })) {
    return;
  }
  if (!status.ok()) reserved_.erase(found);
  sink_.OnReserved(endpoint, status);
}

void HostCm::Release(EndpointId endpoint) {
  Unlisten(endpoint);
  memory_.Survives([&] { tcp_->listeners().Release(endpoint); });
  reserved_.erase(endpoint);
}

void HostCm::Listen(EndpointId endpoint) {
  const auto found = reserved_.find(endpoint);
  if (found == reserved_.end()) return;
  if (!OfDevice(found->second.adapter)) {
    return (void)memory_.Survives([&] { tcp_->listeners().Listen(endpoint); });
  }
  for (const Address& at : AddressesOf(found->second)) device_.Listen(at);
}

void HostCm::Unlisten(EndpointId endpoint) {
  const auto found = reserved_.find(endpoint);
  if (found == reserved_.end()) return;
  if (!OfDevice(found->second.adapter)) {
    return (void)memory_.Survives([&] { tcp_->listeners().Unlisten(endpoint); });
  }
  for (const Address& at : AddressesOf(found->second)) device_.Unlisten(at);
}

void HostCm::Connect(const provider::ConnectParams& params) {
  if (OfDevice(params.adapter)) return device_.Connect(params);
  const Adapter* const adapter = set_.Find(params.adapter);
  if (adapter == nullptr || hidden_.contains(params.adapter)) {
    sink_.OnFailed(params.id, {StatusCode::kNetworkUnreachable, "the adapter is gone"});
    return;
  }
  memory_.Survives([&] {
    if (const Adapter* own = set_.Owner(params.remote); own != nullptr) {
      loop_.Connect(params, own->options.name);
    } else {
      tcp_->Connect(params, *adapter);
    }
  });
}

void HostCm::Accept(CmId id, const provider::AcceptParams& params) {
  if (device_.Owns(id)) return device_.Accept(id, params);
  memory_.Survives([&] { loop_.Owns(id) ? loop_.Accept(id, params) : tcp_->Accept(id, params); });
}

void HostCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  if (device_.Owns(id)) return device_.Reject(id, detail, private_data);
  memory_.Survives([&] {
    loop_.Owns(id) ? loop_.Reject(id, detail, private_data) : tcp_->Reject(id, detail, private_data);
  });
}

void HostCm::Confirm(CmId id) {
  if (device_.Owns(id)) return device_.Confirm(id);
  const NoDescriptors limit(dice_.Chance(faults.no_descriptors));
  memory_.Survives([&] { loop_.Owns(id) ? loop_.Confirm(id) : tcp_->Confirm(id); });
}

void HostCm::Abort(CmId id) {
  if (const auto local = local_ends_.find(id); local != local_ends_.end()) {
    net_.Close(local->second, true);
    local_ends_.erase(local);
  }
  if (device_.Owns(id)) return device_.Abort(id);
  memory_.Survives([&] { loop_.Owns(id) ? loop_.Abort(id) : tcp_->Abort(id); });
}

void HostCm::Disconnect(CmId id) {
  if (device_.Owns(id)) return device_.Disconnect(id);
  sink_.OnDisconnected(id, {StatusCode::kNotSupported, "the client says goodbye on soft"});
}

Result<HostCm::Transport> HostCm::Take(CmId id) {
  Transport transport;
  if (device_.Owns(id)) {
    transport.record.transport = provider::verbs::kTransport;
    return transport;
  }
  const Status none(StatusCode::kInsufficientResources, "the broker dies");
  Result<provider::HandOff> taken = none;
  const bool local = loop_.Owns(id);
  if (!memory_.Survives([&] { taken = local ? loop_.TakeHandOff(id) : tcp_->TakeHandOff(id); })) return none;
  if (!taken.ok()) return taken.status();
  transport.record = taken->record;
  transport.end = local ? local_ends_.extract(id).mapped() : sim_tcp_.TakeReleased();
  return transport;
}

std::size_t HostCm::stream_ends() const {
  return tcp_->connections() + tcp_->rejected() + sim_tcp_.queued() + local_ends_.size();
}

std::size_t HostCm::stray_ports() const {
  std::set<Address> wanted;
  for (const auto& [endpoint, reservation] : reserved_) {
    if (OfDevice(reservation.adapter)) continue;
    for (const Address& at : AddressesOf(reservation)) wanted.insert(at);
  }
  for (const Adapter& adapter : set_.adapters()) {
    if (adapter.options.tcp_mode) continue;
    for (const Address& own : adapter.addresses) wanted.insert(own.WithPort(adapter.options.tcp_port));
  }
  return sim_tcp_.held_ports() - wanted.size();
}

std::string HostCm::Describe() const {
  return std::to_string(tcp_->connections()) + " TCP, " + std::to_string(tcp_->rejected()) + " refused, " +
         std::to_string(sim_tcp_.queued()) + " not accepted, " + std::to_string(local_ends_.size()) +
         " same-host ends, " + std::to_string(device_.size()) + " device ends, " +
         std::to_string(reserved_.size()) + " reserved ports, " + std::to_string(stray_ports()) +
         " other ports, " + std::to_string(loop_.handshakes()) + " same-host handshakes";
}

}  // namespace nd::sim
