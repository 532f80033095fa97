// SPDX-License-Identifier: Apache-2.0
// Listening sockets come and go with adapters' addresses and with endpoints; accepting never stops for long.
#include "provider/soft/cm/tcp_listeners.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "provider/soft/cm/tcp_socket.h"

namespace nd::provider::soft {
namespace {

constexpr int kBatch = 16;
constexpr Duration kExhaustedPause = std::chrono::milliseconds(100);
constexpr Duration kRetryPause = std::chrono::seconds(1);

UniqueFd OpenReserve() {
  return UniqueFd(open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

TcpListeners::TcpListeners(EventLoop& loop, const AdapterSet& adapters, OnAccept on_accept, OnError on_error)
    : loop_(loop),
      adapters_(adapters),
      on_accept_(std::move(on_accept)),
      on_error_(std::move(on_error)),
      reserve_(OpenReserve()) {}

TcpListeners::~TcpListeners() {
  loop_.Cancel(resume_timer_);
  loop_.Cancel(retry_timer_);
  for (auto& [address, socket] : shared_) Unwatch(*socket);
  while (!endpoints_.empty()) Release(endpoints_.begin()->first);
}

Status TcpListeners::Start() {
  for (const Adapter& adapter : adapters_.adapters()) {
    if (adapter.options.tcp_mode) continue;
    for (const Address& address : adapter.addresses) {
      Status status = OpenShared(adapter, address.WithPort(adapter.options.tcp_port));
      if (status.ok()) continue;
      // An address that is still being checked for duplicates cannot be bound yet.
      if (adapter.follows_host && status == StatusCode::kInvalidAddress) {
        Retry();
        continue;
      }
      return status;
    }
  }
  return Status::Ok();
}

Status TcpListeners::OpenShared(const Adapter& adapter, const Address& address) {
  Result<UniqueFd> fd = ListenOn(address);
  if (!fd.ok()) return fd.status();
  auto socket = std::make_unique<Socket>();
  socket->fd = std::move(fd).value();
  socket->adapter = adapter.options.name;
  socket->address = address;
  Watch(*socket);
  if (!socket->watched) return {StatusCode::kInsufficientResources, "a listening socket cannot be watched"};
  shared_[address] = std::move(socket);
  return Status::Ok();
}

void TcpListeners::Sync() {
  bool complete = SyncShared();
  for (auto& [id, endpoint] : endpoints_) {
    if (!SyncEndpoint(endpoint)) complete = false;
  }
  if (!complete) Retry();
}

void TcpListeners::Retry() {
  loop_.Cancel(retry_timer_);
  retry_timer_ = loop_.At(loop_.clock().Now() + kRetryPause, [this] { Sync(); });
}

bool TcpListeners::SyncShared() {
  for (auto it = shared_.begin(); it != shared_.end();) {
    const Adapter* adapter = adapters_.Find(it->second->adapter);
    if (adapter != nullptr && adapter->Has(it->first)) {
      ++it;
      continue;
    }
    Unwatch(*it->second);
    it = shared_.erase(it);
  }
  bool complete = true;
  for (const Adapter& adapter : adapters_.adapters()) {
    if (adapter.options.tcp_mode) continue;
    for (const Address& ip : adapter.addresses) {
      const Address address = ip.WithPort(adapter.options.tcp_port);
      if (!shared_.contains(address) && !OpenShared(adapter, address).ok()) complete = false;
    }
  }
  return complete;
}

bool TcpListeners::SyncEndpoint(Endpoint& endpoint) {
  bool complete = true;
  const Adapter* adapter = adapters_.Find(endpoint.adapter);
  if (adapter != nullptr && endpoint.local.unspecified()) {
    std::erase_if(endpoint.sockets, [&](const std::shared_ptr<Socket>& socket) {
      if (adapter->Has(socket->address)) return false;
      Drop(endpoint, socket);
      return true;
    });
    for (const Address& ip : adapter->addresses) {
      if (ip.family() != endpoint.local.family()) continue;
      const bool held = std::ranges::any_of(endpoint.sockets,
                                            [&](const auto& socket) { return socket->address.same_ip(ip); });
      if (!held && !Hold(endpoint, ip.WithPort(endpoint.local.port())).ok()) complete = false;
    }
  }
  if (endpoint.listening && !ListenOnAll(endpoint)) complete = false;
  return complete;
}

Status TcpListeners::Hold(Endpoint& endpoint, const Address& address) {
  std::weak_ptr<Socket>& held = held_[address];
  if (std::shared_ptr<Socket> shared = held.lock()) {
    endpoint.sockets.push_back(std::move(shared));
    return Status::Ok();
  }
  Result<UniqueFd> fd = HoldPort(address);
  if (!fd.ok()) {
    held_.erase(address);
    return fd.status();
  }
  auto socket = std::make_shared<Socket>();
  socket->fd = std::move(fd).value();
  socket->adapter = endpoint.adapter;
  socket->address = address;
  socket->mode = PortMode::kTcp;
  held = socket;
  endpoint.sockets.push_back(std::move(socket));
  return Status::Ok();
}

void TcpListeners::Drop(const Endpoint& endpoint, const std::shared_ptr<Socket>& socket) {
  const bool last = socket.use_count() == 1;
  if (last) held_.erase(socket->address);
  if (!endpoint.listening && !last) return;
  Unwatch(*socket);
  if (!last) StopListening(socket->fd.get());
}

bool TcpListeners::ListenOnAll(Endpoint& endpoint) {
  bool complete = true;
  for (auto& socket : endpoint.sockets) {
    if (socket->watched) continue;
    if (StartListening(socket->fd.get())) Watch(*socket);
    if (!socket->watched) complete = false;
  }
  return complete;
}

Status TcpListeners::Reserve(EndpointId id, const std::string& adapter_name, const Address& local) {
  const Adapter* adapter = adapters_.Find(adapter_name);
  if (adapter == nullptr || (!local.unspecified() && !adapter->Has(local))) {
    return {StatusCode::kInvalidAddress,
            local.IpToString() + " is not an address of adapter " + adapter_name};
  }
  Endpoint endpoint{adapter_name, local, false, {}};
  Status status;
  if (!local.unspecified()) status = Hold(endpoint, local);
  for (const Address& ip : adapter->addresses) {
    if (!status.ok()) break;
    if (local.unspecified() && ip.family() == local.family())
      status = Hold(endpoint, ip.WithPort(local.port()));
  }
  if (!status.ok()) {
    for (const auto& socket : endpoint.sockets) Drop(endpoint, socket);
    return status;
  }
  Release(id);
  endpoints_.emplace(id, std::move(endpoint));
  return Status::Ok();
}

void TcpListeners::Release(EndpointId id) {
  const auto it = endpoints_.find(id);
  if (it == endpoints_.end()) return;
  for (const auto& socket : it->second.sockets) Drop(it->second, socket);
  endpoints_.erase(it);
}

void TcpListeners::Listen(EndpointId id) {
  const auto it = endpoints_.find(id);
  if (it == endpoints_.end() || it->second.listening) return;
  it->second.listening = true;
  if (!ListenOnAll(it->second)) Retry();
}

void TcpListeners::Unlisten(EndpointId id) {
  const auto it = endpoints_.find(id);
  if (it == endpoints_.end() || !it->second.listening) return;
  it->second.listening = false;
  for (auto& socket : it->second.sockets) {
    Unwatch(*socket);
    StopListening(socket->fd.get());
  }
}

Result<UniqueFd> TcpListeners::BindFrom(EndpointId id, const Address& local) {
  const auto it = endpoints_.find(id);
  int held = -1;
  if (it != endpoints_.end()) {
    for (const auto& socket : it->second.sockets) {
      if (socket->address.same_ip(local)) held = socket->fd.get();
    }
  }
  return BindBeside(held, local);
}

void TcpListeners::Watch(Socket& socket) {
  socket.watched = loop_.Add(socket.fd.get(), paused_ ? 0u : EPOLLIN,
                             [this, &socket](std::uint32_t) { AcceptBatch(socket); });
}

void TcpListeners::Unwatch(Socket& socket) {
  if (std::exchange(socket.watched, false)) loop_.Remove(socket.fd.get());
}

void TcpListeners::AcceptBatch(Socket& socket) {
  for (int i = 0; i < kBatch && !paused_; ++i) {
    UniqueFd fd(accept4(socket.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (fd) {
      on_accept_(std::move(fd), socket.adapter, socket.mode);
      continue;
    }
    switch (errno) {
      case EMFILE:
      case ENFILE:
      case ENOBUFS:
      case ENOMEM:
        on_error_(errno);
        // Refuse the oldest one audibly instead of leaving it and everybody behind it in the queue.
        reserve_.reset();
        fd.reset(accept4(socket.fd.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
        if (fd) ResetOnClose(fd.get());
        fd.reset();
        reserve_ = OpenReserve();
        OnDescriptorsExhausted();
        return;
      case EINTR:
      case ECONNABORTED:
      case EPROTO:
        continue;
      case EAGAIN:
        return;
      default:
        on_error_(errno);
        return;
    }
  }
}

void TcpListeners::OnDescriptorsExhausted() {
  if (paused_) return;
  SetPaused(true);
  resume_timer_ = loop_.At(loop_.clock().Now() + kExhaustedPause, [this] {
    if (!reserve_) reserve_ = OpenReserve();
    SetPaused(false);
  });
}

void TcpListeners::SetPaused(bool paused) {
  paused_ = paused;
  const std::uint32_t events = paused ? 0u : EPOLLIN;
  for (auto& [address, socket] : shared_) {
    if (socket->watched) loop_.Modify(socket->fd.get(), events);
  }
  for (auto& [id, endpoint] : endpoints_) {
    for (auto& socket : endpoint.sockets) {
      if (socket->watched) loop_.Modify(socket->fd.get(), events);
    }
  }
}

}  // namespace nd::provider::soft
