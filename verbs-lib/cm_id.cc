// SPDX-License-Identifier: Apache-2.0
// Identifiers: their table, addresses, listeners and events. cm_connection.cc has connections.
#include "verbs-lib/cm_id.h"

#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <utility>

namespace nd::verbs_lib {
namespace {

struct IdTable {
  std::mutex mutex;
  std::uint32_t next = 1;
  std::unordered_map<std::uint32_t, std::shared_ptr<CmId>> ids;
};

IdTable& id_table() {
  static auto* instance = new IdTable;
  return *instance;
}

void FillSockaddr(const Address& address, sockaddr_in6* out) {
  std::memset(out, 0, sizeof *out);
  address.ToSockaddr(out);
}

// The unspecified address names this host, as for the kernel's rdma_cm.
Address OfHost(const Address& remote) {
  if (!remote.well_formed() || !remote.unspecified()) return remote;
  static const Address v4 = Address::Parse("127.0.0.1").value(), v6 = Address::Parse("::1").value();
  return (remote.family() == Address::Family::kIpv6 ? v6 : v4).WithPort(remote.port());
}

// The unspecified address of the family of `address`.
Address Unspecified(const Address& like, std::uint16_t port) {
  return like.family() == Address::Family::kIpv6 ? Address::V6({}, port) : Address::V4({}, port);
}

// Where a listener at :: listens on a device: at both families, as that of the kernel's rdma_cm.
std::vector<Address> BothFamilies(Device& device) {
  const Address v6 = Address::V6({}, 0), v4 = Address::V4({}, 0);
  Adapter* const adapter = device.adapter();
  if (adapter == nullptr) return {v6};
  std::vector<Address> wanted;
  for (const Address& any : {v6, v4}) {
    const bool has = std::ranges::any_of(adapter->info().addresses,
                                         [&any](const Address& own) { return own.family() == any.family(); });
    if (has) wanted.push_back(any);
  }
  return wanted;
}

}  // namespace

std::shared_ptr<CmId> CmId::Make(std::shared_ptr<CmChannel> channel, std::uint64_t uid, Space space) {
  auto id = std::make_shared<CmId>();
  id->channel_ = std::move(channel);
  id->uid_ = uid;
  id->space_ = space;
  std::lock_guard lock(id_table().mutex);
  id->handle_ = id_table().next++;
  id_table().ids[id->handle_] = id;
  return id;
}

std::shared_ptr<CmId> CmId::Find(std::uint32_t handle) {
  std::lock_guard lock(id_table().mutex);
  const auto it = id_table().ids.find(handle);
  return it == id_table().ids.end() ? nullptr : it->second;
}

void CmId::DestroyAllOf(const CmChannel* channel) {
  std::vector<std::shared_ptr<CmId>> of_channel;
  {
    std::lock_guard lock(id_table().mutex);
    for (const auto& [handle, id] : id_table().ids) {
      std::lock_guard inner(id->mutex_);
      if (id->channel_.get() == channel) of_channel.push_back(id);
    }
  }
  for (const auto& id : of_channel) id->Destroy();
}

void CmId::TellRemoval(const Device* device) {
  std::vector<std::shared_ptr<CmId>> of_device;
  {
    std::lock_guard lock(id_table().mutex);
    for (const auto& [handle, id] : id_table().ids) {
      std::lock_guard inner(id->mutex_);
      if (id->device_ == device && id->channel_) of_device.push_back(id);
    }
  }
  for (const auto& id : of_device) id->Tell(CmEvent::kDeviceRemoval, 0);
}

CmChannel::Event CmId::MakeEvent(CmEvent event, int status, const std::shared_ptr<CmId>& request) {
  CmChannel::Event told;
  told.response.id = request ? request->handle_ : handle_;
  told.response.event = static_cast<std::uint32_t>(event);
  told.response.status = static_cast<std::uint32_t>(status);
  told.owner = shared_from_this();
  told.request = request;
  return told;
}

bool CmId::Push(CmChannel::Event event) {
  std::lock_guard lock(mutex_);
  if (dead_) return false;
  channel_->Push(std::move(event));
  return true;
}

bool CmId::Tell(CmEvent event, int status, const rdma_ucm_conn_param* parameters,
                const std::shared_ptr<CmId>& request) {
  CmChannel::Event told = MakeEvent(event, status, request);
  if (parameters != nullptr) told.response.param.conn = *parameters;
  return Push(std::move(told));
}

void CmId::Reported(CmChannel::Event* event) {
  std::vector<std::size_t> resume;
  {
    std::lock_guard lock(mutex_);
    ++reported_;
    event->response.uid = uid_;
    if (event->request) {
      --unread_requests_;
      resume.swap(waiting_listeners_);
    }
  }
  for (const std::size_t listener : resume) AwaitRequest(listener);
}

int CmId::Bind(const Address& wanted_local) {
  if (!listeners_.empty() || connector_bound_) return EINVAL;
  const Address local = Attached(wanted_local);
  const auto* devices = Devices();
  if (devices == nullptr) return ENODEV;
  std::vector<Device*> wanted;
  if (local.unspecified()) {
    wanted = *devices;
  } else if (Device* device = DeviceOf(local)) {
    wanted.push_back(device);
  }
  if (wanted.empty()) return devices->empty() ? ENODEV : EADDRNOTAVAIL;
  // When the program chooses no port, the first adapter chooses one, which must be free on the others too.
  Address bound = local;
  const bool both = local.unspecified() && local.family() == Address::Family::kIpv6 && !one_family_;
  for (Device* device : wanted) {
    for (const Address& place : both ? BothFamilies(*device) : std::vector{local}) {
      auto listener = CmListener::Bind(device, place.WithPort(bound.port()));
      if (!listener.ok()) {
        ReleaseListeners();
        return ErrnoOf(listener.status());
      }
      bound.set_port((*listener)->local().port());
      listeners_.push_back(std::move(listener).value());
    }
  }
  if (listeners_.empty()) return EADDRNOTAVAIL;
  local_ = bound;
  if (!local.unspecified()) device_ = wanted.front();
  return 0;
}

int CmId::ResolveAddress(const Address& wanted_source, const Address& wanted_remote) {
  const auto* devices = Devices();
  if (devices == nullptr) return ENODEV;
  const Address source = Attached(wanted_source), remote = Attached(OfHost(wanted_remote));
  remote_ = remote;
  // A port that the program bound is kept for the connection.
  Address local = source.well_formed() && !source.unspecified() ? source.WithPort(local_.port()) : local_;
  if (source.well_formed() && source.port() != 0) local.set_port(source.port());
  const std::uint16_t port = local.port();
  if (!local.well_formed() || local.unspecified()) {
    Status last(StatusCode::kNetworkUnreachable);
    for (Device* device : *devices) {
      Adapter* adapter = device->adapter();
      if (adapter == nullptr) return ENODEV;
      auto found = adapter->ResolveAddress(remote);
      if (found.ok()) {
        local = found->WithPort(port);
        device_ = device;
        break;
      }
      last = found.status();
    }
    if (device_ == nullptr) return ErrnoOf(last);
  } else {
    device_ = DeviceOf(local);
    if (device_ == nullptr) return EADDRNOTAVAIL;
    if (device_->adapter() == nullptr) return ENODEV;
  }
  local_ = local;
  if (const int error = BindConnector()) {
    Tell(CmEvent::kAddrError, -error);
    return 0;
  }
  Tell(CmEvent::kAddrResolved, 0);
  return 0;
}

int CmId::BindConnector() {
  // The listener only held the port.
  ReleaseListeners();
  auto made = device_->adapter()->CreateConnector();
  if (!made.ok()) return ErrnoOf(made.status());
  Connector connector = std::move(made).value();
  if (const Status status = BindPatiently([&] { return connector.Bind(local_); }); !status.ok())
    return ErrnoOf(status);
  if (auto address = connector.GetLocalAddress(); address.ok()) local_ = *address;
  connector_ = connector;
  connector_bound_ = true;
  return 0;
}

int CmId::ResolveRoute() {
  if (!connector_bound_ || std::exchange(route_resolved_, true)) return EINVAL;
  Tell(CmEvent::kRouteResolved, 0);
  return 0;
}

int CmId::Listen(std::uint32_t backlog) {
  if (listeners_.empty()) {
    if (const int error = Bind(Unspecified(local_, 0))) return error;
  }
  if (listening_) return EINVAL;
  for (const auto& listener : listeners_) {
    const auto on_unseen = [weak = weak_from_this(), used = std::weak_ptr(listener)] {
      const auto self = weak.lock();
      const auto delivered_by = used.lock();
      if (self && delivered_by) self->IntroduceUnseen(delivered_by);
    };
    if (const Status status = listener->Listen(on_unseen); !status.ok()) return ErrnoOf(status);
  }
  listening_ = true;
  backlog_ = backlog == 0 ? 1024 : backlog;
  for (std::size_t i = 0; i < listeners_.size(); ++i) {
    IntroduceUnseen(listeners_[i]);
    AwaitRequest(i);
  }
  return 0;
}

void CmId::AwaitRequest(std::size_t index) {
  std::shared_ptr<CmListener> listener;
  {
    std::lock_guard lock(mutex_);
    if (dead_ || index >= listeners_.size()) return;
    listener = listeners_[index];
  }
  auto made = listener->device()->adapter()->CreateConnector();
  if (!made.ok()) return;
  Connector connector = std::move(made).value();
  Begin([&](Request* request) { return listener->listener().GetConnectionRequest(connector, request); },
        [weak = weak_from_this(), connector, used = std::weak_ptr(listener),
         index](const Status& status) mutable {
          auto self = weak.lock();
          auto delivered_by = used.lock();
          if (!delivered_by || !status.ok()) return;
          if (!self || self->dead()) return delivered_by->KeepUnseen(std::move(connector));
          auto request = CmId::Make(nullptr, 0, self->space_);
          if (!self->Introduce(request, delivered_by, std::move(connector))) return self->AwaitRequest(index);
          self->OnRequestTaken(index);
        });
}

bool CmId::Introduce(const std::shared_ptr<CmId>& request, const std::shared_ptr<CmListener>& listener,
                     Connector connector) {
  rdma_ucm_conn_param parameters{};
  request->delivered_by_ = listener;
  request->device_ = listener->device();
  request->connector_ = std::move(connector);
  request->passive_ = request->connector_bound_ = true;
  if (auto address = request->connector_.GetLocalAddress(); address.ok()) request->local_ = *address;
  if (auto address = request->connector_.GetPeerAddress(); address.ok()) request->remote_ = *address;
  const auto question = for_datagrams() ? request->Question() : std::nullopt;
  if (for_datagrams() && !question) {
    request->Destroy();
    return false;
  }
  request->FillConnectionData(&parameters);
  {
    std::lock_guard lock(mutex_);
    request->channel_ = channel_;
  }
  const bool told = question ? TellOfDatagrams(CmEvent::kConnectRequest, 0, *question, request)
                             : Tell(CmEvent::kConnectRequest, 0, &parameters, request);
  if (!told) request->LeaveUnseen();
  return true;
}

void CmId::OnRequestTaken(std::size_t index) {
  {
    std::lock_guard lock(mutex_);
    // Requests beyond the backlog stay with the broker until a GetConnectionRequest asks for them.
    if (++unread_requests_ >= backlog_) return waiting_listeners_.push_back(index);
  }
  AwaitRequest(index);
}

std::uint32_t CmId::MoveTo(std::shared_ptr<CmChannel> channel) {
  std::lock_guard lock(mutex_);
  for (CmChannel::Event& event : channel_->Remove(this)) channel->Push(std::move(event));
  channel_ = std::move(channel);
  return reported_;
}

std::uint32_t CmId::Destroy() {
  // First, else its listeners would offer it the requests that it leaves below.
  ReleaseListeners();
  std::deque<CmChannel::Event> unread;
  {
    std::lock_guard lock(id_table().mutex);
    id_table().ids.erase(handle_);
  }
  std::uint32_t reported;
  {
    std::lock_guard lock(mutex_);
    dead_ = true;
    if (channel_) unread = channel_->Remove(this);
    reported = reported_;
  }
  // The program never saw these requests.
  for (CmChannel::Event& event : unread) {
    if (event.request && event.request.get() != this) event.request->LeaveUnseen();
  }
  CloseEverything();
  return reported;
}

void CmId::IntroduceUnseen(const std::shared_ptr<CmListener>& listener) {
  for (Connector& unseen : listener->TakeUnseen()) {
    {
      std::lock_guard lock(mutex_);
      ++unread_requests_;
    }
    if (Introduce(CmId::Make(nullptr, 0, space_), listener, std::move(unseen))) continue;
    std::lock_guard lock(mutex_);
    --unread_requests_;
  }
}

void CmId::LeaveUnseen() {
  Connector connector;
  std::shared_ptr<CmListener> listener;
  {
    std::lock_guard lock(mutex_);
    std::swap(connector, connector_);
    listener = delivered_by_;
  }
  Destroy();
  listener->KeepUnseen(std::move(connector));
}

bool CmId::dead() {
  std::lock_guard lock(mutex_);
  return dead_;
}

void CmId::ReleaseListeners() {
  std::vector<std::shared_ptr<CmListener>> listeners;
  {
    std::lock_guard lock(mutex_);
    listeners.swap(listeners_);
  }
  for (const auto& listener : listeners) listener->Leave();
}

void CmId::CloseEverything() {
  Connector connector;
  nd::QueuePair carries_nothing;
  std::shared_ptr<CmListener> delivered_by;  // After the connector, which counts in it.
  {
    std::lock_guard lock(mutex_);
    std::swap(connector, connector_);
    delivered_by.swap(delivered_by_);
    if (!queue_pair_) std::swap(carries_nothing, used_);
    connector_bound_ = false;
  }
  if (connector.impl()) CloseInBackground(std::move(connector));
  if (carries_nothing.impl()) CloseInBackground(std::move(carries_nothing));
}

void CmId::FillRoute(rdma_ucm_query_route_resp* out) {
  std::memset(out, 0, sizeof *out);
  FillSockaddr(local_, &out->src_addr);
  FillSockaddr(remote_, &out->dst_addr);
  if (device_ == nullptr) return;
  out->node_guid = GuidOf(device_->info);
  out->ibdev_index = static_cast<std::uint32_t>(device_->index);
  out->port_num = 1;
  if (!remote_.well_formed()) return;
  out->num_paths = 1;
  ib_user_path_rec& path = out->ib_route[0];
  std::memcpy(path.sgid, GidOf(local_).raw, sizeof path.sgid);
  std::memcpy(path.dgid, GidOf(remote_).raw, sizeof path.dgid);
  path.pkey = 0xffff;
  path.mtu = IBV_MTU_4096;
  path.hop_limit = 64;
  path.reversible = htonl(1);
}

}  // namespace nd::verbs_lib
