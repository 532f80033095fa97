// SPDX-License-Identifier: Apache-2.0
// Tests only: the smallest provider, with the steps of provider/README.md. Connections within one broker are
// Unix socket pairs; queue pairs send and receive, nothing else.
#pragma once

#include <algorithm>
#include <deque>
#include <map>

#include "base/fd_lane.h"
#include "base/os/socket.h"
#include "provider/daemon_provider.h"
#include "provider/qp.h"

namespace nd::provider::pipe {

inline constexpr TransportKind kTransport{0x70697065};
// Step 1, the daemon half: both ends of every connection are clients of this broker.
class PipeCm final : public ConnectionManager {
 public:
  PipeCm(std::string adapter, CmSink& sink) : adapter_(std::move(adapter)), sink_(sink) {}
  std::vector<AdapterDescription> adapters() const override {
    AdapterDescription description;
    description.info.name = adapter_;
    description.info.provider = "pipe";
    return {description};
  }
  void Listen(EndpointId id, const std::string&, const Address& at) override { listening_[id] = at; }
  void Unlisten(EndpointId id) override { listening_.erase(id); }
  void Connect(const ConnectParams& p) override {
    const auto fits = [&](const auto& entry) { return entry.second == p.remote; };
    if (std::ranges::none_of(listening_, fits))
      return sink_.OnRejected(p.id, {StatusCode::kConnectionRefused, "none", Detail::kNoListener}, {});
    const CmId inbound{kInboundBit | ++last_};
    End &active = ends_[p.id] = {inbound}, &passive = ends_[inbound] = {p.id};
    if (const Status made = MakeSeqpacketPair(&active.socket, &passive.socket); !made.ok()) {
      Forget(inbound);
      return sink_.OnFailed(p.id, made);
    }
    sink_.OnRequest({inbound, adapter_, p.remote, p.local, true, p.offer, p.private_data});
  }
  void Accept(CmId id, const AcceptParams& params) override {
    sink_.OnReply(ends_.at(id).peer, true, params.limits, params.private_data);
  }
  void Reject(CmId id, Detail detail, const Bytes& data) override {
    sink_.OnRejected(Forget(id), {StatusCode::kConnectionRefused, "refused", detail}, data);
  }
  void Confirm(CmId id) override {
    for (const CmId end : {id, ends_.at(id).peer}) {
      ends_.at(end).established = true;
      sink_.OnEstablished(end);
    }
  }
  void Abort(CmId id) override {
    const auto end = ends_.find(id);
    if (end == ends_.end()) return;
    if (end->second.established) return static_cast<void>(ends_.erase(end));
    sink_.OnLost(Forget(id), {StatusCode::kConnectionAborted, "withdrawn"}, {});
  }
  Result<HandOff> TakeHandOff(CmId id) override {
    HandOff out;
    out.transport = "pipe";
    out.record.transport = kTransport;
    out.fds.push_back(std::move(ends_.at(id).socket));
    ends_.erase(id);
    return out;
  }
  Result<Address> Resolve(const std::string&, const Address& to) const override { return to.WithPort(0); }

 private:
  struct End {
    CmId peer{};
    UniqueFd socket{};
    bool established = false;
  };
  CmId Forget(CmId id) {
    const CmId peer = ends_.at(id).peer;
    ends_.erase(id);
    ends_.erase(peer);
    return peer;
  }
  const std::string adapter_;
  CmSink& sink_;
  std::uint64_t last_ = 0;
  std::map<EndpointId, Address> listening_;
  std::map<CmId, End> ends_;
};
// Step 2: the table [pipe] with the key `adapter`.
struct PipeProvider final : DaemonProvider {
  std::vector<std::string_view> tables() const override { return {"pipe"}; }
  void Read(std::string_view table, OptionTable& options) override {
    if (table == "pipe") options.String("adapter", &adapter);
  }
  Result<std::unique_ptr<ConnectionManager>> Make(EventLoop&, CmSink& sink) const override {
    return adapter.empty() ? std::unique_ptr<ConnectionManager>() : std::make_unique<PipeCm>(adapter, sink);
  }
  std::string adapter;
};

// Step 3, the client half: a send is one datagram, and Poll() receives.
struct PipeQp final : QueuePair {
  Status Attach(HandOff given) override {
    if (given.record.transport != kTransport || given.fds.size() != 1) return StatusCode::kInvalidParameter;
    socket = std::move(given.fds[0]);
    return {};
  }
  Status Receive(void* request, std::span<const Sge> sges) override {
    posted.emplace_back(request, sges[0]);
    return {};
  }
  Status Send(void*, std::span<const Sge> sges, std::uint32_t) override {
    const bool sent = os::Send(socket.get(), sges[0].address, sges[0].length) >= 0;
    return sent ? StatusCode::kSuccess : StatusCode::kDeviceBusy;
  }
  Status Flush() override { return {}; }
  void Disconnect(Duration, std::function<void(Status)> done) override { done({}); }
  void Drop() override { socket.reset(); }
  UniqueFd socket;
  std::deque<std::pair<void*, Sge>> posted;
};
struct PipeCq final : CompletionQueue {
  std::size_t Poll(std::span<Completion> out) override {
    std::size_t count = 0;
    for (auto& posted = queue_pair->posted; count < out.size() && !posted.empty(); posted.pop_front()) {
      const auto [request, sge] = posted.front();
      const auto got = os::Receive(queue_pair->socket.get(), sge.address, sge.length);
      if (got <= 0) break;
      out[count++] = {{}, static_cast<std::uint32_t>(got), nullptr, request, RequestType::kReceive};
    }
    return count;
  }
  std::shared_ptr<PipeQp> queue_pair;  // One for each queue.
};
struct PipeDevice final : Device {
  Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t) override {
    return std::shared_ptr<CompletionQueue>(std::make_shared<PipeCq>());
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    auto& queue = static_cast<PipeCq&>(*options.receive_cq);
    return std::shared_ptr<QueuePair>(queue.queue_pair = std::make_shared<PipeQp>());
  }
};

// Step 4 adds one line to each list of providers: PipeProvider, and {"pipe", Open}.
inline Result<std::shared_ptr<Device>> Open(const AdapterInfo&, const DeviceOptions&) {
  return std::shared_ptr<Device>(std::make_shared<PipeDevice>());
}

}  // namespace nd::provider::pipe
