// SPDX-License-Identifier: Apache-2.0
// Tests only: a connection manager without a wire. Both ends are in this broker, and it makes every callback
// of a real one.
#pragma once

#include <map>
#include <memory>
#include <set>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "provider/cm.h"

namespace nd::service {

class LoopManager final : public provider::ConnectionManager {
 public:
  // `tcp`: transports are TCP sockets.
  explicit LoopManager(provider::CmSink& sink, bool tcp = false) : sink_(sink), tcp_(tcp) {}

  std::vector<provider::AdapterDescription> adapters() const override {
    provider::AdapterDescription adapter;
    AdapterInfo& info = adapter.info;
    info.name = "loop0";
    info.provider = "loop";
    info.max_caller_data = info.max_callee_data = 240;
    info.max_inbound_read_limit = info.max_outbound_read_limit = 16;
    info.max_receive_queue_depth = info.max_initiator_queue_depth = 1024;
    info.flags = kAdapterLoopback;
    info.addresses = {Address::V4({127, 0, 0, 1})};
    adapter.mode = "separate";
    adapter.tcp_port = 4794;
    return {adapter};
  }
  void Reserve(provider::EndpointId endpoint, const std::string&, const Address&) override {
    sink_.OnReserved(endpoint, Status::Ok());
  }
  void Release(provider::EndpointId) override {}
  void Listen(provider::EndpointId endpoint, const std::string&, const Address& local) override {
    listening_[endpoint] = local;
  }
  void Unlisten(provider::EndpointId endpoint) override { listening_.erase(endpoint); }

  void Connect(const provider::ConnectParams& params) override {
    bool heard = false;
    for (const auto& [endpoint, local] : listening_) heard |= local == params.remote;
    if (!heard) {
      sink_.OnRejected(params.id,
                       Status(StatusCode::kConnectionRefused, "nobody listens", Detail::kNoListener), {});
      return;
    }
    const provider::CmId inbound{provider::kInboundBit | ++last_};
    other_[params.id] = inbound;
    other_[inbound] = params.id;
    provider::InboundRequest request;
    request.id = inbound;
    request.adapter = params.adapter;
    request.local = params.remote;
    request.remote = params.local;
    request.peer_offer = params.offer;
    request.private_data = params.private_data;
    sink_.OnRequest(request);
  }
  // The broker may answer an attempt that its other side has given up: the news of that is on its way.
  void Accept(provider::CmId id, const provider::AcceptParams& params) override {
    if (const auto it = other_.find(id); it != other_.end())
      sink_.OnReply(it->second, true, params.limits, params.private_data);
  }
  void Reject(provider::CmId id, Detail detail, const provider::Bytes& data) override {
    const auto it = other_.find(id);
    if (it == other_.end()) return;
    const provider::CmId peer = it->second;
    if ((static_cast<std::uint64_t>(id) & provider::kInboundBit) != 0) {
      sink_.OnRejected(peer, Status(StatusCode::kConnectionRefused, "refused", detail), data);
    } else {
      sink_.OnLost(peer, Status(StatusCode::kConnectionAborted, "rejected", Detail::kPeerRejected), data);
    }
    Forget(id, peer);
  }
  void Confirm(provider::CmId id) override {
    const auto it = other_.find(id);
    if (it == other_.end()) return;
    const provider::CmId peer = it->second;
    UniqueFd a, b;
    if (!(tcp_ ? MakeTcpPair(&a, &b) : MakeSeqpacketPair(&a, &b).ok())) {
      const Status none(StatusCode::kInsufficientResources, "no descriptor is left");
      Forget(id, peer);
      sink_.OnLost(id, none, {});
      sink_.OnLost(peer, none, {});
      return;
    }
    up_[id] = std::move(a);
    up_[peer] = std::move(b);
    sink_.OnEstablished(id);
    sink_.OnEstablished(peer);
  }
  void Abort(provider::CmId id) override {
    const auto it = other_.find(id);
    if (it == other_.end()) return;
    const provider::CmId peer = it->second;
    if (!established_.contains(id) && !up_.contains(id)) {
      sink_.OnLost(peer, Status(StatusCode::kConnectionAborted, "withdrawn", Detail::kPeerWithdrew), {});
      Forget(id, peer);
    } else {
      up_.erase(id);
      established_.erase(id);
      other_.erase(id);
    }
  }
  void Disconnect(provider::CmId) override {}
  Result<provider::HandOff> TakeHandOff(provider::CmId id) override {
    const auto it = up_.find(id);
    if (it == up_.end()) return Status(StatusCode::kInternalError, "taken twice or never established");
    provider::HandOff out;
    out.record.transport = provider::TransportKind{1};
    out.transport = tcp_ ? "iwarp" : "local";
    out.close_may_block = tcp_;
    out.record.fd_count = 1;
    out.fds.push_back(std::move(it->second));
    up_.erase(it);
    established_.insert(id);
    return out;
  }
  Result<Address> Resolve(const std::string&, const Address&) const override {
    return Address::V4({127, 0, 0, 1});
  }
  std::uint32_t handshakes() const override { return 0; }

 private:
  static bool MakeTcpPair(UniqueFd* a, UniqueFd* b) {
    const UniqueFd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const name = reinterpret_cast<sockaddr*>(&address);
    a->reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), name, length) != 0 || ::listen(listener.get(), 1) != 0 ||
        ::getsockname(listener.get(), name, &length) != 0 || ::connect(a->get(), name, length) != 0) {
      return false;
    }
    b->reset(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    return static_cast<bool>(*b);
  }
  void Forget(provider::CmId a, provider::CmId b) {
    other_.erase(a);
    other_.erase(b);
  }
  provider::CmSink& sink_;
  const bool tcp_;
  std::uint64_t last_ = 0;
  std::map<provider::EndpointId, Address> listening_;
  std::map<provider::CmId, provider::CmId> other_;
  std::map<provider::CmId, UniqueFd> up_;
  std::set<provider::CmId> established_;
};

}  // namespace nd::service
