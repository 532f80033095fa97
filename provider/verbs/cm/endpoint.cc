// SPDX-License-Identifier: Apache-2.0
// A port belongs to this broker alone although several of its ids use it.
#include "provider/verbs/cm/endpoint.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "provider/verbs/cm/status_map.h"

namespace nd::provider::verbs {
namespace {

// The backlog of the kernel. The loop empties it at once; the queue of the listener has a limit of its own.
constexpr int kKernelBacklog = 1024;

}  // namespace

Endpoint::Endpoint(ConnectionHost& host, EndpointId id, std::string adapter, const Address& local,
                   std::function<void(const CmEvent&)> on_request)
    : host_(host), id_(id), adapter_(std::move(adapter)), local_(local), on_request_(std::move(on_request)) {}

Endpoint::~Endpoint() {
  for (Holder& holder : holders_) Drop(&holder);
}

void Endpoint::Drop(Holder* holder) {
  if (!holder->wire) return;
  host_.loop().Remove(holder->wire->fd());
  // An id that only holds a port can be destroyed here. Destroying a listening id may block on its requests.
  listened_ ? host_.DestroyLater(std::move(holder->wire), holder->address) : holder->wire.reset();
}

std::vector<Address> Endpoint::Covered() const {
  if (!local_.unspecified()) return {local_};
  std::vector<Address> covered;
  const DeviceTable::Port* const port = host_.devices().Find(adapter_);
  if (port == nullptr) return covered;
  for (const Address& address : port->description.info.addresses) {
    if (address.family() == local_.family()) covered.push_back(address.WithPort(local_.port()));
  }
  return covered;
}

int Endpoint::Open(Holder* holder) {
  auto wire = WireId::Create();
  if (!wire.ok()) return wire.status().native();
  // The first bind is exclusive, so that a foreign holder is noticed. Later binds of our own ids share the
  // port.
  int error = (*wire)->Bind(holder->address, false);
  if (error == 0) error = (*wire)->ShareFromNowOn();
  if (error == 0 && iwarp_ && !holder->tcp) {
    const int family = holder->address.family() == Address::Family::kIpv4 ? AF_INET : AF_INET6;
    holder->tcp.reset(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_storage storage{};
    const auto size = static_cast<socklen_t>(holder->address.ToSockaddr(&storage));
    const int on =
        1;  // The driver's sockets use the option too, and none of them listens while this one is bound.
    if (!holder->tcp || ::setsockopt(holder->tcp.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
        ::bind(holder->tcp.get(), reinterpret_cast<sockaddr*>(&storage), size) != 0) {
      error = errno;
      holder->tcp.reset();
    }
  }
  const auto readable = [weak = weak_from_this(), address = holder->address](std::uint32_t) {
    if (auto self = weak.lock()) self->OnReadable(address);
  };
  if (error == 0 && !host_.loop().Add((*wire)->fd(), EPOLLIN, readable, Account::kPeers)) {
    error = errno;
  }
  if (error != 0) {
    host_.DestroyLater(std::move(wire).value(), holder->address);
    return error;
  }
  holder->wire = std::move(wire).value();
  return 0;
}

int Endpoint::Hold() {
  const DeviceTable::Port* const port = host_.devices().Find(adapter_);
  if (port == nullptr) return ENODEV;
  iwarp_ = port->iwarp;
  for (const Address& address : Covered()) {
    const auto same = [&](const Holder& holder) { return holder.address == address; };
    if (std::any_of(holders_.begin(), holders_.end(), same)) continue;
    Holder holder{address, nullptr, {}};
    if (const int error = Open(&holder); error != 0) return error;
    holders_.push_back(std::move(holder));
  }
  return 0;
}

int Endpoint::ListenOn(Holder& holder) {
  if (!holder.wire) return ENODEV;
  return rdma_listen(holder.wire->id(), kKernelBacklog) == 0 ? 0 : errno;
}

Status Endpoint::Listen() {
  listening_ = listened_ = true;
  for (Holder& holder : holders_) {
    if (const int error = ListenOn(holder); error != 0) return FromListen(error);
  }
  return {};
}

void Endpoint::Unlisten() {
  if (!std::exchange(listening_, false)) return;
  // A listening id cannot stop listening. A new id takes the port when the old one is destroyed. On iWARP the
  // TCP socket holds the port meanwhile.
  for (Holder& holder : holders_) {
    if (!holder.wire) continue;
    host_.loop().Remove(holder.wire->fd());
    host_.pool().Submit([wire = std::exchange(holder.wire, nullptr), weak = weak_from_this(),
                         &loop = host_.loop(), address = holder.address]() mutable {
      wire.reset();
      loop.Post([weak, address] {
        const auto self = weak.lock();
        if (!self) return;
        for (Holder& waiting : self->holders_) {
          if (waiting.address == address && !waiting.wire) static_cast<void>(self->Open(&waiting));
        }
      });
    });
  }
}

void Endpoint::OnAddressesChanged() {
  if (!local_.unspecified()) return;
  const std::size_t before = holders_.size();
  if (Hold() != 0 || !listening_) return;
  for (std::size_t i = before; i < holders_.size(); ++i) static_cast<void>(ListenOn(holders_[i]));
}

void Endpoint::OnReadable(const Address& address) {
  const auto holder = std::find_if(holders_.begin(), holders_.end(),
                                   [&](const Holder& h) { return h.address == address && h.wire; });
  if (holder == holders_.end()) return;
  const std::optional<CmEvent> event = holder->wire->NextEvent();
  if (!event) return;
  if (event->type == RDMA_CM_EVENT_CONNECT_REQUEST) {
    on_request_(*event);
  } else if (event->type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
    Drop(&*holder);
  }
}

}  // namespace nd::provider::verbs
