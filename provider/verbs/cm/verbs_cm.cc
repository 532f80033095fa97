// SPDX-License-Identifier: Apache-2.0
// Implements provider/cm.h: finds the object for an id and calls it.
#include "provider/verbs/cm/verbs_cm.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "provider/verbs/cm/make_verbs_cm.h"
#include "provider/verbs/cm/status_map.h"

namespace nd::provider::verbs {
namespace {

constexpr unsigned kBlockingThreads = 32;
// Separates these ids from the inbound ids of other providers, which count from 1.
constexpr std::uint64_t kOwnBit = std::uint64_t{1} << 62;
constexpr Duration kPatienceForOldIds = std::chrono::seconds(2);

Status FromHold(int error) {
  return error == ENODEV ? Status(StatusCode::kDeviceRemoved, "The RDMA device was removed.")
                         : FromBind(error);
}

}  // namespace

std::unique_ptr<ConnectionManager> MakeVerbsCm(const Options& options, EventLoop& loop, CmSink& sink) {
  return std::make_unique<VerbsCm>(options, loop, sink);
}

VerbsCm::VerbsCm(const Options& options, EventLoop& loop, CmSink& sink)
    : loop_(loop),
      sink_(sink),
      pool_(std::make_unique<BlockingPool>(kBlockingThreads)),
      devices_(loop, nldev_, *pool_, options, [this] {
        if (ready_) OnDevicesChanged();
      }) {
  ready_ = true;
}

VerbsCm::~VerbsCm() {
  *alive_ = false;
  for (const auto& [endpoint, timer] : waiting_) loop_.Cancel(timer);
  waiting_.clear();
  connections_.clear();
  endpoints_.clear();
}

void VerbsCm::DestroyLater(std::shared_ptr<WireId> wire, const Address& bound) {
  if (!bound.well_formed()) {
    pool_->Submit([wire = std::move(wire)] {});
    return;
  }
  ++dying_[bound];
  pool_->Submit([this, alive = alive_, &loop = loop_, wire = std::move(wire), bound]() mutable {
    wire.reset();
    loop.Post([this, alive, bound] {
      if (!*alive) return;
      if (--dying_[bound] == 0) dying_.erase(bound);
      const auto waiting = waiting_;
      for (const auto& [endpoint, timer] : waiting) TryReserve(endpoint, false);
    });
  });
}

std::vector<AdapterDescription> VerbsCm::adapters() const {
  std::vector<AdapterDescription> descriptions;
  for (const DeviceTable::Port& port : devices_.ports()) descriptions.push_back(port.description);
  for (const auto& [device, problem] : devices_.problems()) {
    AdapterDescription& broken = descriptions.emplace_back();
    broken.info.name = device;
    broken.info.provider = "verbs";
    broken.problem = problem;
    broken.reserve_ports = true;
    broken.client_disconnects = false;
    broken.pins_memory = true;
  }
  return descriptions;
}

void VerbsCm::OnDevicesChanged() {
  for (const auto& [id, endpoint] : endpoints_) endpoint->OnAddressesChanged();
  sink_.OnAdaptersChanged();
}

void VerbsCm::Reserve(EndpointId id, const std::string& adapter, const Address& local) {
  const auto endpoint = std::make_shared<Endpoint>(*this, id, adapter, local,
                                                   [this](const CmEvent& event) { OnRequest(event); });
  endpoints_[id] = endpoint;
  waiting_[endpoint] = EventLoop::TimerId{};
  TryReserve(endpoint, false);
}

void VerbsCm::TryReserve(const std::shared_ptr<Endpoint>& endpoint, bool last) {
  const auto waiting = waiting_.find(endpoint);
  if (waiting == waiting_.end()) return;
  const int error = endpoint->Hold();
  const auto in_the_way = [&](const auto& dying) {
    return dying.first.port() == endpoint->local().port() &&
           (endpoint->local().unspecified() || dying.first == endpoint->local());
  };
  if (!last && (error == EADDRINUSE || error == EADDRNOTAVAIL) &&
      std::any_of(dying_.begin(), dying_.end(), in_the_way)) {
    if (waiting->second == EventLoop::TimerId{}) {
      waiting->second = loop_.At(loop_.clock().Now() + kPatienceForOldIds,
                                 [this, endpoint] { TryReserve(endpoint, true); });
    }
    return;
  }
  loop_.Cancel(waiting->second);
  waiting_.erase(waiting);
  const EndpointId id = endpoint->id();
  if (error != 0) endpoints_.erase(id);
  sink_.OnReserved(id, FromHold(error));
}

void VerbsCm::Release(EndpointId id) {
  const auto found = endpoints_.find(id);
  if (found == endpoints_.end()) return;
  if (const auto waiting = waiting_.find(found->second); waiting != waiting_.end()) {
    loop_.Cancel(waiting->second);
    waiting_.erase(waiting);
  }
  endpoints_.erase(found);
}

void VerbsCm::Listen(EndpointId id, const std::string&, const Address&) {
  const auto found = endpoints_.find(id);
  if (found != endpoints_.end()) static_cast<void>(found->second->Listen());
}

void VerbsCm::Unlisten(EndpointId id) {
  const auto found = endpoints_.find(id);
  if (found != endpoints_.end()) found->second->Unlisten();
}

void VerbsCm::OnRequest(const CmEvent& event) {
  const std::string device =
      event.id->verbs == nullptr ? std::string() : ibv_get_device_name(event.id->verbs->device);
  const DeviceTable::Port* const port = devices_.FindPort(device, event.id->port_num);
  auto wire = WireId::Adopt(event.id);
  // Taking over the id failed, which has refused the request. The peer may try again.
  if (!wire.ok()) return;
  if (port == nullptr) {
    rdma_reject((*wire)->id(), nullptr, 0);
    return DestroyLater(std::move(wire).value(), Address());
  }
  const CmId id{kInboundBit | kOwnBit | next_inbound_++};
  const auto connection = std::make_shared<Connection>(*this, id, port->description.info.name);
  connections_[id] = connection;
  if (!connection->StartInbound(std::move(wire).value(), event)) connections_.erase(id);
}

std::shared_ptr<Connection> VerbsCm::Find(CmId id) const {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second;
}

void VerbsCm::Connect(const ConnectParams& params) {
  const auto connection = std::make_shared<Connection>(*this, params.id, params.adapter);
  connections_[params.id] = connection;
  connection->StartActive(params);
}

void VerbsCm::Accept(CmId id, const AcceptParams& params) {
  if (const auto connection = Find(id)) connection->Accept(params);
}

void VerbsCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  if (const auto connection = Find(id)) connection->Reject(detail, private_data);
}

void VerbsCm::Confirm(CmId id) {
  if (const auto connection = Find(id)) connection->Confirm();
}

void VerbsCm::Prepared(CmId id, const Status& status) {
  if (const auto connection = Find(id)) connection->Prepared(status);
}

void VerbsCm::Abort(CmId id) {
  if (const auto connection = Find(id)) connection->Abort();
}

void VerbsCm::Disconnect(CmId id) {
  if (const auto connection = Find(id)) connection->Disconnect();
}

Result<HandOff> VerbsCm::TakeHandOff(CmId id) {
  const auto connection = Find(id);
  if (!connection) return Status{StatusCode::kConnectionInvalid, "The connection has ended."};
  return connection->TakeHandOff();
}

Result<Address> VerbsCm::Resolve(const std::string& adapter, const Address& remote) const {
  const DeviceTable::Port* const port = devices_.Find(adapter);
  if (port == nullptr) return Status{StatusCode::kDeviceRemoved, "The RDMA device was removed."};
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "That is no complete address."};
  // The routing table decides, as it does for rdma_resolve_addr. Connecting a datagram socket asks it without
  // sending.
  sockaddr_storage storage{};
  const auto size = static_cast<socklen_t>(remote.WithPort(9).ToSockaddr(&storage));
  const UniqueFd probe(::socket(storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  socklen_t length = sizeof storage;
  if (!probe || ::connect(probe.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0 ||
      ::getsockname(probe.get(), reinterpret_cast<sockaddr*>(&storage), &length) != 0) {
    return FromAddress(errno == 0 ? ENETUNREACH : errno);
  }
  const Address source = Address::FromSockaddr(reinterpret_cast<sockaddr*>(&storage), length).WithPort(0);
  for (const Address& address : port->description.info.addresses) {
    if (address.same_ip(source)) return address;
  }
  return Status{
      StatusCode::kNetworkUnreachable,
      remote.IpToString() + " is not reached over " + adapter + " but from " + source.IpToString() + ".",
      Detail::kTransport};
}

std::uint32_t VerbsCm::handshakes() const {
  return static_cast<std::uint32_t>(
      std::count_if(connections_.begin(), connections_.end(),
                    [](const auto& entry) { return entry.second->handshaking(); }));
}

}  // namespace nd::provider::verbs
