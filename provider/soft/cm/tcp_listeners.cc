// SPDX-License-Identifier: Apache-2.0
// Listening sockets follow the addresses of adapters and the endpoints. Accepting never stops for long.
#include "provider/soft/cm/tcp_listeners.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/os/readiness.h"

namespace nd::provider::soft {
namespace {

constexpr int kBatch = 16;
constexpr Duration kExhaustedPause = std::chrono::milliseconds(100);
constexpr Duration kRetryPause = std::chrono::seconds(1);
constexpr Duration kUnclaimedPause = std::chrono::seconds(1);
constexpr Duration kClosingPause = std::chrono::milliseconds(200);

}  // namespace

TcpListeners::TcpListeners(TcpHost& host, const AdapterSet& adapters, OnAccept on_accept, OnError on_error)
    : host_(host), adapters_(adapters), on_accept_(std::move(on_accept)), on_error_(std::move(on_error)) {}

TcpListeners::~TcpListeners() {
  host_.Cancel(resume_timer_);
  host_.Cancel(retry_timer_);
  host_.Cancel(closing_timer_);
  host_.Cancel(unclaimed_timer_);
  // Only this object's copies are closed: shutting a kept socket down would end it for the next broker, too.
  for (auto& [address, socket] : shared_) Unwatch(*socket);
  for (auto& [adapter, socket] : served_) Unwatch(*socket);
  for (auto& [id, endpoint] : endpoints_) {
    for (auto& socket : endpoint.sockets) Unwatch(*socket);
  }
}

bool TcpListeners::Leave() {
  leaving_ = true;
  bool any = false;
  const auto leave = [&](Socket& socket) {
    if (!socket.kept) return;
    Unwatch(socket);
    any = true;
  };
  for (auto& [address, socket] : shared_) leave(*socket);
  for (auto& [adapter, socket] : served_) leave(*socket);
  for (auto& [id, endpoint] : endpoints_) {
    for (auto& socket : endpoint.sockets) leave(*socket);
  }
  return any;
}

Status TcpListeners::Start() {
  // By then the ports of leases are reserved, too.
  if (host_.keeps()) {
    unclaimed_timer_ = host_.At(host_.Now() + kUnclaimedPause, [this] { host_.DropUnclaimed(); });
  }
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
  auto socket = std::make_unique<Socket>();
  socket->listener = host_.Take({address});
  socket->kept = socket->listener != nullptr;
  if (!socket->kept) {
    Result<std::unique_ptr<TcpListener>> listener = host_.Listen(address);
    if (!listener.ok()) return listener.status();
    socket->listener = std::move(listener).value();
  }
  socket->adapter = adapter.options.name;
  socket->at = {address};
  Watch(*socket);
  if (!socket->watched) return {StatusCode::kInsufficientResources, "a listening socket cannot be watched"};
  if (!Keep(*socket)) Retry();
  shared_[address] = std::move(socket);
  return Status::Ok();
}

void TcpListeners::Sync() {
  bool complete = SyncShared();
  for (auto& [adapter, socket] : served_) complete &= Keep(*socket);
  for (auto& [id, endpoint] : endpoints_) {
    if (!SyncEndpoint(endpoint)) complete = false;
  }
  if (!complete) Retry();
}

void TcpListeners::Retry() {
  host_.Cancel(retry_timer_);
  retry_timer_ = host_.At(host_.Now() + kRetryPause, [this] { Sync(); });
}

bool TcpListeners::SyncShared() {
  bool complete = true;
  for (auto it = shared_.begin(); it != shared_.end();) {
    const Adapter* adapter = adapters_.Find(it->second->adapter);
    if (adapter != nullptr && adapter->Has(it->first)) {
      complete &= Keep(*it->second);
      ++it;
      continue;
    }
    EndListening(*it->second);
    it = shared_.erase(it);
  }
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
      if (adapter->Has(socket->at.address)) return false;
      Drop(endpoint, socket);
      return true;
    });
    for (const Address& ip : adapter->addresses) {
      if (ip.family() != endpoint.local.family()) continue;
      const bool held = std::ranges::any_of(
          endpoint.sockets, [&](const auto& socket) { return socket->at.address.same_ip(ip); });
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
  auto socket = std::make_shared<Socket>();
  if (auto closing = closing_.extract(address)) {
    socket->listener = std::move(closing.mapped());
  } else {
    socket->listener = host_.Take({address});
    socket->kept = socket->listener != nullptr;
  }
  if (!socket->listener) {
    Result<std::unique_ptr<TcpListener>> listener = host_.Hold(address);
    if (!listener.ok()) {
      held_.erase(address);
      return listener.status();
    }
    socket->listener = std::move(listener).value();
  }
  socket->adapter = endpoint.adapter;
  socket->at = {address};
  socket->mode = PortMode::kTcp;
  held = socket;
  endpoint.sockets.push_back(std::move(socket));
  return Status::Ok();
}

void TcpListeners::Drop(const Endpoint& endpoint, const std::shared_ptr<Socket>& socket) {
  const bool last = socket.use_count() == 1;
  if (!last && !endpoint.listening) return;
  const bool was_kept = socket->kept;
  EndListening(*socket);
  if (!last) return;
  held_.erase(socket->at.address);
  if (was_kept) CloseLater(*socket);
}

void TcpListeners::EndListening(Socket& socket) {
  Unwatch(socket);
  socket.listener->StopListening();
  if (std::exchange(socket.kept, false)) host_.Drop(socket.at);
}

void TcpListeners::CloseLater(Socket& socket) {
  closing_.insert_or_assign(socket.at.address, std::move(socket.listener));
  host_.Cancel(closing_timer_);
  closing_timer_ = host_.At(host_.Now() + kClosingPause, [this] { closing_.clear(); });
}

bool TcpListeners::Keep(Socket& socket) {
  if (socket.kept || !socket.watched || !host_.keeps()) return true;
  socket.kept = host_.Keep(socket.at, *socket.listener);
  return socket.kept;
}

bool TcpListeners::ListenOnAll(Endpoint& endpoint) {
  bool complete = true;
  for (auto& socket : endpoint.sockets) {
    if (!socket->watched && socket->listener->StartListening()) Watch(*socket);
    if (!socket->watched || !Keep(*socket)) complete = false;
  }
  return complete;
}

TcpListeners::Served TcpListeners::TakeServed(std::uint64_t network, const Address& address) {
  std::unique_ptr<TcpListener> listener = host_.Take({address, network});
  const bool kept = listener != nullptr;
  return {address, std::move(listener), kept};
}

void TcpListeners::GiveBack(std::uint64_t network, Served served) {
  if (!served.kept) return;
  served.listener->StopListening();
  host_.Drop({served.address, network});
}

void TcpListeners::Serve(const std::string& adapter, std::uint64_t network, std::vector<Served> sockets,
                         const std::function<void()>& broken) {
  for (Served& served : sockets) {
    auto socket = std::make_unique<Socket>();
    socket->listener = std::move(served.listener);
    socket->adapter = adapter;
    socket->at = {served.address, network};
    socket->kept = served.kept;
    socket->broken = broken;
    Watch(*socket);
    if (!Keep(*socket)) Retry();
    served_.emplace(adapter, std::move(socket));
  }
}

void TcpListeners::StopServing(const std::string& adapter) {
  const auto [first, last] = served_.equal_range(adapter);
  for (auto it = first; it != last; ++it) EndListening(*it->second);
  served_.erase(first, last);
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
  for (auto& socket : it->second.sockets) EndListening(*socket);
}

Result<std::unique_ptr<TcpSocket>> TcpListeners::SocketFrom(EndpointId id, const Address& local) {
  const auto it = endpoints_.find(id);
  TcpListener* held = nullptr;
  if (it != endpoints_.end()) {
    for (const auto& socket : it->second.sockets) {
      if (!socket->at.address.same_ip(local)) continue;
      // Its former holder listened; the new one connects.
      if (socket->kept && !it->second.listening) EndListening(*socket);
      held = socket->listener.get();
    }
  }
  return host_.SocketBeside(held, local);
}

void TcpListeners::Watch(Socket& socket) {
  if (leaving_ && host_.keeps()) return;
  socket.watched = socket.listener->Watch(paused_ ? 0u : os::kReadable,
                                          [this, &socket](std::uint32_t) { AcceptBatch(socket); });
}

void TcpListeners::Unwatch(Socket& socket) {
  if (std::exchange(socket.watched, false)) socket.listener->Unwatch();
}

void TcpListeners::AcceptBatch(Socket& socket) {
  for (int i = 0; i < kBatch && !paused_; ++i) {
    TcpListener::Accepted accepted = socket.listener->Accept();
    if (GiveUp(socket, accepted) || accepted.result == os::Accepted::Result::kNone) return;
    if (accepted.socket) {
      on_accept_(std::move(accepted.socket), socket.adapter, socket.mode);
      continue;
    }
    on_error_(accepted.error);
    if (accepted.result != os::Accepted::Result::kExhausted) return;
    socket.listener->RefuseOldest();
    OnDescriptorsExhausted();
    return;
  }
}

bool TcpListeners::GiveUp(Socket& socket, const TcpListener::Accepted& accepted) {
  if (!socket.broken) return false;
  if (accepted.result != os::Accepted::Result::kFailed && accepted.error != EINTR) return false;
  Unwatch(socket);
  socket.broken();
  return true;
}

void TcpListeners::OnDescriptorsExhausted() {
  if (paused_) return;
  SetPaused(true);
  resume_timer_ = host_.At(host_.Now() + kExhaustedPause, [this] {
    host_.RefillSpare();
    SetPaused(false);
  });
}

void TcpListeners::SetPaused(bool paused) {
  paused_ = paused;
  const std::uint32_t events = paused ? 0u : os::kReadable;
  for (auto& [address, socket] : shared_) {
    if (socket->watched) socket->listener->SetEvents(events);
  }
  for (auto& [adapter, socket] : served_) {
    if (socket->watched) socket->listener->SetEvents(events);
  }
  for (auto& [id, endpoint] : endpoints_) {
    for (auto& socket : endpoint.sockets) {
      if (socket->watched) socket->listener->SetEvents(events);
    }
  }
}

}  // namespace nd::provider::soft
