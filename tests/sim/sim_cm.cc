// SPDX-License-Identifier: Apache-2.0
// Works in the same order as the driver of real sockets, because that order is part of the behaviour.
#include "tests/sim/sim_cm.h"

#include <sys/resource.h>

#include <cerrno>
#include <utility>

#include "provider/soft/cm/tcp_socket.h"

namespace nd::sim {
namespace {

using provider::CmId;
using provider::soft::ActiveHandshake;
using provider::soft::Adapter;
using provider::soft::Deadline;
using provider::soft::Ending;
using provider::soft::HandshakeStep;
using provider::soft::PassiveHandshake;
using provider::soft::PortMode;
using Event = HandshakeStep::Event;
using CloseHow = HandshakeStep::Close;

constexpr Duration kForeignSettleTime = std::chrono::milliseconds(10);

Ending EndingOf(int error) {
  return error == ETIMEDOUT ? Ending::kTimeout : Ending::kReset;
}

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

}  // namespace

class SimCm::LoopSink final : public provider::CmSink {
 public:
  explicit LoopSink(SimCm& cm) : cm_(cm) {}
  void OnReserved(provider::EndpointId, const Status&) override {}
  void OnRequest(const provider::InboundRequest& request) override {
    if (!gone()) cm_.sink_.OnRequest(request);
  }
  void OnReply(CmId id, bool known, const ReadLimits& peer, const Bytes& data) override {
    if (!gone()) cm_.sink_.OnReply(id, known, peer, data);
  }
  void OnRejected(CmId id, const Status& status, const Bytes& data) override {
    if (!gone()) cm_.sink_.OnRejected(id, status, data);
  }
  void OnFailed(CmId id, const Status& status) override {
    if (!gone()) cm_.sink_.OnFailed(id, status);
  }
  // Called for the active side first, then at once for the passive one.
  void OnEstablished(CmId id) override {
    if (gone()) return;
    if (other_ == 0) {
      const EndId first = cm_.net_.MakePair(Owner::kBroker, cm_.options_.host);
      cm_.local_ends_[id] = first;
      other_ = first + 1;
    } else {
      cm_.local_ends_[id] = std::exchange(other_, 0);
    }
    cm_.sink_.OnEstablished(id);
  }
  void OnLost(CmId id, const Status& status, const Bytes& data) override {
    if (!gone()) cm_.sink_.OnLost(id, status, data);
  }
  void OnPeerClosed(CmId, DisconnectReason) override {}
  void OnDisconnected(CmId, const Status&) override {}
  void OnAdaptersChanged() override {}

 private:
  bool gone() const { return cm_.memory_.gone(); }
  SimCm& cm_;
  EndId other_ = 0;
};

SimCm::SimCm(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric,
             provider::CmSink& sink, Memory& memory)
    : options_(std::move(options)),
      schedule_(schedule),
      dice_(dice),
      net_(net),
      sink_(sink),
      memory_(memory),
      set_(provider::soft::AdapterSet::Make(options_.soft, {}).value()),
      loop_sink_(std::make_unique<LoopSink>(*this)),
      loop_(*loop_sink_, ids_),
      device_(fabric, sink, ids_, options_.device) {
  for (const Adapter& adapter : set_.adapters()) {
    if (adapter.options.tcp_mode) continue;
    for (const Address& ip : adapter.addresses) {
      const Address at = ip.WithPort(adapter.options.tcp_port);
      net_.Listen(at,
                  [this, name = adapter.options.name](EndId end, const Address& local, const Address& peer) {
                    OnAccepted(end, name, PortMode::kSeparate, local, peer);
                  });
    }
  }
}

SimCm::~SimCm() {
  for (const Adapter& adapter : set_.adapters()) {
    if (adapter.options.tcp_mode) continue;
    for (const Address& ip : adapter.addresses) net_.Unlisten(ip.WithPort(adapter.options.tcp_port));
  }
  while (!reserved_.empty()) Release(reserved_.begin()->first);
  // Sockets of a dead process are reset (SO_LINGER): a death is not a goodbye.
  for (auto& [id, connection] : connections_) {
    ClearTimer(*connection);
    net_.Close(connection->end, true);
  }
  for (const auto& [id, end] : local_ends_) net_.Close(end, true);
}

SimCm::Connection* SimCm::Find(CmId id) {
  if (memory_.gone()) return nullptr;
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

std::vector<provider::AdapterDescription> SimCm::adapters() const {
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

Result<Address> SimCm::Resolve(const std::string& name, const Address& remote) const {
  for (const provider::AdapterDescription& d : adapters()) {
    if (d.info.name != name) continue;
    for (const Address& own : d.info.addresses) {
      if (own.family() == remote.family()) return own.WithPort(0);
    }
    return Status{StatusCode::kNetworkUnreachable, "no address of that family"};
  }
  return Status{StatusCode::kInvalidAddress, "there is no adapter " + name};
}

void SimCm::Hide(const std::string& adapter, bool hidden) {
  if (hidden) {
    hidden_.insert(adapter);
  } else {
    hidden_.erase(adapter);
  }
  sink_.OnAdaptersChanged();
}

std::vector<Address> SimCm::ListenAddresses(const Reservation& reservation) const {
  if (!reservation.local.unspecified()) return {reservation.local};
  std::vector<Address> all;
  for (const provider::AdapterDescription& d : adapters()) {
    if (d.info.name != reservation.adapter) continue;
    for (const Address& own : d.info.addresses) {
      if (own.family() == reservation.local.family()) all.push_back(own.WithPort(reservation.local.port()));
    }
  }
  return all;
}

void SimCm::Reserve(provider::EndpointId endpoint, const std::string& adapter, const Address& local) {
  Status status;
  if (dice_.Chance(faults.reserve_refused)) {
    constexpr StatusCode kCodes[] = {StatusCode::kSharingViolation, StatusCode::kSharingViolation,
                                     StatusCode::kAccessDenied, StatusCode::kInsufficientResources,
                                     StatusCode::kInvalidAddress};
    status = Status(kCodes[dice_.Below(5)], "the host says no", Detail::kTransport);
  }
  // Ports of other programs.
  if (local.port() == 6001 || (local.port() >= 50000 && local.port() < 50012)) {
    status = Status(StatusCode::kSharingViolation, "in use by another program", Detail::kTransport);
  }
  reserved_[endpoint] = {adapter, local, false, false};
  const auto answer = [this, endpoint, status] {
    const auto found = reserved_.find(endpoint);
    if (found == reserved_.end()) {
      // The endpoint was given up meanwhile; the answer is sent anyway.
      sink_.OnReserved(endpoint, status);
      return;
    }
    if (status.ok()) {
      found->second.granted = true;
    } else {
      reserved_.erase(found);
    }
    sink_.OnReserved(endpoint, status);
  };
  if (!dice_.Chance(faults.reserve_slow)) return answer();
  schedule_.After(dice_.Millis(1, 400), [answer, alive = std::weak_ptr<int>(alive_)] {
    if (!alive.expired()) answer();
  });
}

void SimCm::Release(provider::EndpointId endpoint) {
  Unlisten(endpoint);
  reserved_.erase(endpoint);
}

void SimCm::Listen(provider::EndpointId endpoint, const std::string&, const Address&) {
  const auto found = reserved_.find(endpoint);
  if (found == reserved_.end() || found->second.listening) return;
  found->second.listening = true;
  const std::string& adapter = found->second.adapter;
  for (const Address& at : ListenAddresses(found->second)) {
    if (adapter == options_.device) {
      device_.Listen(at);
    } else {
      net_.Listen(at, [this, adapter](EndId end, const Address& local, const Address& peer) {
        OnAccepted(end, adapter, PortMode::kTcp, local, peer);
      });
    }
  }
}

void SimCm::Unlisten(provider::EndpointId endpoint) {
  const auto found = reserved_.find(endpoint);
  if (found == reserved_.end() || !found->second.listening) return;
  found->second.listening = false;
  Reservation all = found->second;
  std::vector<Address> addresses = ListenAddresses(all);
  if (all.local.unspecified() && addresses.empty()) {
    // The adapter may be hidden; its sockets are still found.
    for (const Adapter& adapter : set_.adapters()) {
      if (adapter.options.name != all.adapter) continue;
      for (const Address& ip : adapter.addresses) addresses.push_back(ip.WithPort(all.local.port()));
    }
    if (all.adapter == options_.device) {
      for (const Address& ip : options_.device_addresses) addresses.push_back(ip.WithPort(all.local.port()));
    }
  }
  for (const Address& at : addresses) {
    if (all.adapter == options_.device) {
      device_.Unlisten(at);
    } else {
      net_.Unlisten(at);
    }
  }
}

void SimCm::Connect(const provider::ConnectParams& params) {
  if (params.adapter == options_.device) return device_.Connect(params);
  const Adapter* const adapter = set_.Find(params.adapter);
  if (adapter == nullptr || hidden_.contains(params.adapter)) {
    sink_.OnFailed(params.id, {StatusCode::kNetworkUnreachable, "the adapter is gone"});
    return;
  }
  if (const Adapter* own = set_.Owner(params.remote); own != nullptr) {
    memory_.Survives([&] { loop_.Connect(params, own->options.name); });
    return;
  }
  const PortMode mode = adapter->ModeFor(params.remote);
  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = params.id;
  connection.known = true;
  connection.mode = mode;
  connection.stage = Stage::kConnecting;
  connection.adapter = params.adapter;
  connection.local = params.local;
  connection.remote = params.remote;
  if (!memory_.Survives([&] {
        connection.active.emplace(adapter->Handshake(mode), params.local.port(), params.remote.port(),
                                  params.offer, params.private_data);
      })) {
    return;
  }
  const std::uint16_t port = mode == PortMode::kTcp ? params.remote.port() : adapter->options.tcp_port;
  connections_[params.id] = std::move(owned);
  const Address from = mode == PortMode::kTcp
                           ? params.local
                           : params.local.WithPort(static_cast<std::uint16_t>(dice_.Between(32768, 60999)));
  connection.end = net_.Connect(from, params.remote.WithPort(port), Owner::kBroker, options_.host,
                                [this, id = params.id](int error) { OnConnected(id, error); });
  SetTimer(connection, options_.soft.connect_timeout);
}

void SimCm::OnAccepted(EndId end, const std::string& adapter_name, PortMode mode, const Address& local,
                       const Address& peer) {
  net_.SetOwner(end, Owner::kBroker, options_.host);
  const Adapter* const adapter = set_.Find(adapter_name);
  if (adapter == nullptr || hidden_.contains(adapter_name) || memory_.gone()) return net_.Close(end, true);
  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = ids_.Next();
  connection.end = end;
  connection.mode = mode;
  connection.adapter = adapter_name;
  connection.local = local;
  connection.remote = peer;
  const CmId id = connection.id;
  connections_[id] = std::move(owned);
  if (!memory_.Survives([&] { connection.passive.emplace(adapter->Handshake(mode)); })) {
    return Close(connection, CloseHow::kReset);
  }
  net_.Watch(end, [this, id] { Examine(id); });
  ArmDeadline(connection);
}

void SimCm::OnConnected(CmId id, int error) {
  Connection* const connection = Find(id);
  if (connection == nullptr || connection->stage != Stage::kConnecting) return;
  if (error != 0) {
    const PortMode mode = connection->mode;
    Close(*connection, CloseHow::kReset);
    sink_.OnFailed(id, provider::soft::ConnectFailure(error, mode));
    return;
  }
  ClearTimer(*connection);
  connection->stage = Stage::kHandshake;
  net_.Watch(connection->end, [this, id] { Examine(id); });
  sink_.OnReached(id);
  Advance(*connection, [&] { return connection->active->Start(); });
}

void SimCm::Examine(CmId id) {
  Connection* const connection = Find(id);
  if (connection == nullptr || connection->stage != Stage::kHandshake) return;
  std::span<const std::uint8_t> unread = net_.Peek(connection->end);
  if (unread.empty()) {
    if (const int error = net_.Error(connection->end); error != 0) {
      return OnClosed(*connection, EndingOf(error));
    }
    if (net_.PeerFinished(connection->end)) OnClosed(*connection, Ending::kFin);
    return;
  }
  unread = unread.first(std::min(unread.size(), provider::soft::kHandshakePeek));
  HandshakeStep step;
  const auto input = provider::soft::wire::AsBytes(unread);
  if (!memory_.Survives([&] {
        step = connection->active ? connection->active->OnInput(input) : connection->passive->OnInput(input);
      })) {
    return;
  }
  if (step.event != Event::kNone || step.consumed != 0) return Apply(*connection, std::move(step));
  if (net_.PeerFinished(connection->end)) OnClosed(*connection, Ending::kFin);
}

void SimCm::OnClosed(Connection& connection, Ending ending) {
  Advance(connection, [&] {
    return connection.active ? connection.active->OnClosed(ending) : connection.passive->OnClosed(ending);
  });
}

template <typename Machine>
void SimCm::Advance(Connection& connection, Machine&& machine) {
  HandshakeStep step;
  if (memory_.Survives([&] { step = machine(); })) Apply(connection, std::move(step));
}

void SimCm::Apply(Connection& connection, HandshakeStep step) {
  const CmId id = connection.id;
  const bool ends = step.event == Event::kRejected || step.event == Event::kFailed ||
                    step.event == Event::kLost || step.event == Event::kDropped;
  net_.Consume(connection.end, step.consumed);
  const bool sent = step.send.empty() || net_.Send(connection.end, step.send);
  if (!sent && !ends && step.close == CloseHow::kNo) {
    const int error = net_.Error(connection.end);
    HandshakeStep lost;
    if (connection.active && step.event == Event::kNone) lost = connection.active->OnClosed(EndingOf(error));
    if (lost.event == Event::kNone) {
      lost.event = Event::kLost;
      lost.status = EndingOf(error) == Ending::kTimeout
                        ? Status(StatusCode::kIoTimeout, "silence", Detail::kWireTimeout, error)
                        : Status(StatusCode::kConnectionAborted, "gone", Detail::kPeerWithdrew, error);
    }
    Close(connection, CloseHow::kReset);
    return Report(id, lost);
  }
  if (step.event == Event::kRequest) {
    ArmDeadline(connection);
    if (connection.mode == PortMode::kSeparate) {
      connection.local.set_port(step.destination_port);
      connection.remote.set_port(step.source_port);
    }
    provider::InboundRequest request;
    request.id = id;
    request.adapter = connection.adapter;
    request.local = connection.local;
    request.remote = connection.remote;
    request.limits_known = step.limits_known;
    request.peer_offer = step.limits;
    request.private_data = std::move(step.private_data);
    connection.known = true;
    return sink_.OnRequest(request);
  }
  if (step.event == Event::kEstablished) {
    ClearTimer(connection);
    net_.Watch(connection.end, nullptr);
    connection.stage = Stage::kEstablished;
    return sink_.OnEstablished(id);
  }
  if (step.event == Event::kReply) connection.replied_at = schedule_.now();
  if (ends || step.close != CloseHow::kNo) {
    Close(connection, step.close);
  } else {
    ArmDeadline(connection);
  }
  Report(id, step);
}

void SimCm::Report(CmId id, HandshakeStep& step) {
  switch (step.event) {
    case Event::kReply:
      return sink_.OnReply(id, step.limits_known, step.limits, step.private_data);
    case Event::kRejected:
      return sink_.OnRejected(id, step.status, step.private_data);
    case Event::kFailed:
      return sink_.OnFailed(id, step.status);
    case Event::kLost:
      return sink_.OnLost(id, step.status, step.private_data);
    default:
      return;
  }
}

void SimCm::Accept(CmId id, const provider::AcceptParams& params) {
  if (loop_.Owns(id)) return (void)memory_.Survives([&] { loop_.Accept(id, params); });
  if (device_.Owns(id)) return device_.Accept(id, params);
  Connection* const connection = Find(id);
  if (connection == nullptr || !connection->passive) return;
  Advance(*connection, [&] { return connection->passive->Accept(params.limits, params.private_data); });
}

void SimCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  if (loop_.Owns(id)) return (void)memory_.Survives([&] { loop_.Reject(id, detail, private_data); });
  if (device_.Owns(id)) return device_.Reject(id, detail, private_data);
  Connection* const connection = Find(id);
  if (connection == nullptr) return;
  Advance(*connection, [&] {
    return connection->passive ? connection->passive->Reject(detail, private_data)
                               : connection->active->Reject(private_data);
  });
}

void SimCm::Confirm(CmId id) {
  if (loop_.Owns(id)) {
    const NoDescriptors limit(dice_.Chance(faults.no_descriptors));
    memory_.Survives([&] { loop_.Confirm(id); });
    return;
  }
  if (device_.Owns(id)) return device_.Confirm(id);
  Connection* const connection = Find(id);
  if (connection == nullptr || !connection->active) return;
  const Time earliest = connection->replied_at + kForeignSettleTime;
  if (connection->mode != PortMode::kTcp || schedule_.now() >= earliest) return SendConfirmation(id);
  ClearTimer(*connection);
  connection->timer = schedule_.At(earliest, [this, id] { SendConfirmation(id); });
}

void SimCm::SendConfirmation(CmId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  connection->timer.reset();
  Examine(id);
  connection = Find(id);
  if (connection != nullptr) Advance(*connection, [&] { return connection->active->Confirm(); });
}

void SimCm::Abort(CmId id) {
  if (const auto local = local_ends_.find(id); local != local_ends_.end()) {
    net_.Close(local->second, true);
    local_ends_.erase(local);
  }
  if (loop_.Owns(id)) return (void)memory_.Survives([&] { loop_.Abort(id); });
  if (device_.Owns(id)) return device_.Abort(id);
  Connection* const connection = Find(id);
  if (connection == nullptr) return;
  const bool reset =
      connection->active || (connection->passive->answered() && net_.AllArrived(connection->end));
  Close(*connection, reset ? CloseHow::kReset : CloseHow::kGraceful);
}

void SimCm::Disconnect(CmId id) {
  if (device_.Owns(id)) return device_.Disconnect(id);
  sink_.OnDisconnected(id, {StatusCode::kNotSupported, "the client says goodbye on soft"});
}

Result<SimCm::Transport> SimCm::Take(CmId id) {
  Transport transport;
  if (loop_.Owns(id)) {
    const Status none(StatusCode::kInsufficientResources, "the broker dies");
    Result<provider::HandOff> taken = none;
    if (!memory_.Survives([&] { taken = loop_.TakeHandOff(id); })) return none;
    if (!taken.ok()) return taken.status();
    transport.record = taken->record;
    transport.end = local_ends_.at(id);
    local_ends_.erase(id);
    return transport;
  }
  if (device_.Owns(id)) {
    transport.record.transport = provider::Transport::kVerbs;
    return transport;
  }
  Connection* const connection = Find(id);
  if (connection == nullptr || connection->stage != Stage::kEstablished) {
    return Status{StatusCode::kInvalidParameter, "there is no established connection of that id"};
  }
  const provider::soft::Agreement& agreement =
      connection->active ? connection->active->agreement() : connection->passive->agreement();
  provider::HandOffRecord& record = transport.record;
  record.transport = provider::Transport::kIwarp;
  record.flags = (connection->active ? provider::kHandOffActive : 0u) |
                 (agreement.crc ? provider::kHandOffCrc : 0u) |
                 (agreement.confirmation_reads ? provider::kHandOffConfirm : 0u);
  record.read_inbound = agreement.limits.inbound;
  record.read_outbound = agreement.limits.outbound;
  record.read_msn_out = agreement.read_msn_out;
  record.read_msn_in = agreement.read_msn_in;
  transport.end = std::exchange(connection->end, 0);
  Close(*connection, CloseHow::kNo);
  return transport;
}

void SimCm::ArmDeadline(Connection& connection) {
  const Deadline wanted = connection.active ? connection.active->deadline() : connection.passive->deadline();
  if (wanted == connection.armed) return;
  ClearTimer(connection);
  connection.armed = wanted;
  if (wanted == Deadline::kRequest) SetTimer(connection, options_.soft.request_timeout);
  if (wanted == Deadline::kAnswer) SetTimer(connection, options_.soft.connect_timeout);
}

void SimCm::SetTimer(Connection& connection, Duration after) {
  connection.timer = schedule_.After(after, [this, id = connection.id] {
    Connection* const c = Find(id);
    if (c == nullptr) return;
    c->timer.reset();
    OnClosed(*c, Ending::kTimeout);
  });
}

void SimCm::ClearTimer(Connection& connection) {
  if (connection.timer) schedule_.Cancel(*connection.timer);
  connection.timer.reset();
  connection.armed = Deadline::kNone;
}

void SimCm::Close(Connection& connection, CloseHow how) {
  ClearTimer(connection);
  if (connection.end != 0) net_.Close(connection.end, how == CloseHow::kReset);
  connections_.erase(connection.id);
}

std::vector<CmId> SimCm::Attempts() const {
  std::vector<CmId> all;
  for (const auto& [id, connection] : connections_) {
    if (connection->known) all.push_back(id);
  }
  return all;
}

std::size_t SimCm::stream_ends() const {
  return connections_.size() + local_ends_.size();
}

std::string SimCm::Describe() const {
  return std::to_string(connections_.size()) + " TCP, " + std::to_string(local_ends_.size()) +
         " same-host ends, " + std::to_string(device_.size()) + " device ends, " +
         std::to_string(reserved_.size()) + " reserved ports, " + std::to_string(loop_.handshakes()) +
         " same-host handshakes";
}

}  // namespace nd::sim
