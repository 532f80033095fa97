// SPDX-License-Identifier: Apache-2.0
// Watches the connections of gRPC. gRPC does not report their end; the kernel does.
#include "daemon/service/control_connections.h"

#include <string>

#include "base/os/descriptor.h"
#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "daemon/ops/logging.h"

namespace nd::service {

ControlConnections::ControlConnections(EventLoop& loop, const char* name, ops::Door& door,
                                       Gate::Limits limits, Duration hello_timeout, HandOver hand_over)
    : loop_(loop),
      name_(name),
      door_(door),
      hello_timeout_(hello_timeout),
      hand_over_(std::move(hand_over)),
      gate_(
          name, door, limits, [this](UniqueFd fd, const Peer& peer) { Admit(std::move(fd), peer); },
          [this] { AdmitWaitingSoon(); }) {}

ControlConnections::~ControlConnections() {
  if (soon_) loop_.Cancel(*soon_);
  for (auto& [cookie, connection] : connections_) {
    if (connection.deadline) loop_.Cancel(*connection.deadline);
    loop_.Remove(connection.fd.get());
  }
}

void ControlConnections::AdmitWaitingSoon() {
  if (soon_) return;
  soon_ = loop_.At(loop_.clock().Now(), [this] {
    soon_.reset();
    gate_.AdmitWaiting();
  });
}

void ControlConnections::Admit(UniqueFd fd, const Peer& peer) {
  UniqueFd watch = os::Duplicate(fd.get());
  const std::uint64_t cookie = peer.cookie;
  if (!watch ||
      !loop_.Add(watch.get(), os::kPeerFinished, [this, cookie](std::uint32_t) { Ended(cookie); })) {
    door_.Refuse(ops::Refusal::kDescriptors);
    ops::LogWarning("accept failed",
                    std::string(name_) + ": no descriptor to watch a connection with; it was closed");
    gate_.Gone(peer.uid, false);
    return;
  }
  Connection& connection = connections_[cookie];
  connection.fd = std::move(watch);
  connection.peer = peer;
  if (hello_timeout_ > Duration::zero()) {
    connection.deadline = loop_.At(loop_.clock().Now() + hello_timeout_, [this, cookie] {
      Connection& late = connections_.at(cookie);
      late.deadline.reset();
      door_.Refuse(ops::Refusal::kNoHello);
      ops::LogWarning("no hello", std::string(name_) + ": uid " + std::to_string(late.peer.uid) + " (pid " +
                                      std::to_string(late.peer.pid) + ") did not say Hello in time");
      os::ShutDown(late.fd.get(),
                   os::Direction::kBoth);  // gRPC reads the end of the stream, and so does the watch.
    });
  }
  hand_over_(std::move(fd), peer);
}

void ControlConnections::Proven(std::uint64_t cookie) {
  const auto it = connections_.find(cookie);
  if (it == connections_.end() || it->second.proven) return;
  it->second.proven = true;
  if (it->second.deadline) loop_.Cancel(*it->second.deadline);
  it->second.deadline.reset();
  gate_.Proven(it->second.peer.uid);
}

void ControlConnections::Ended(std::uint64_t cookie) {
  const auto it = connections_.find(cookie);
  const Connection connection = std::move(it->second);
  connections_.erase(it);
  if (connection.deadline) loop_.Cancel(*connection.deadline);
  loop_.Remove(connection.fd.get());
  gate_.Gone(connection.peer.uid, connection.proven);
}

}  // namespace nd::service
