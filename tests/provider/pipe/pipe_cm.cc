// SPDX-License-Identifier: Apache-2.0
// The daemon half: both ends of every connection are clients of this broker.
#include <map>

#include "base/fd_lane.h"
#include "tests/provider/pipe/pipe_provider.h"

namespace nd::provider::pipe {
namespace {

class PipeCm final : public ConnectionManager {
 public:
  PipeCm(std::string adapter, CmSink& sink) : adapter_(std::move(adapter)), sink_(sink) {}

  std::vector<AdapterDescription> adapters() const override {
    AdapterDescription description;
    description.info.name = adapter_;
    description.info.provider = "pipe";
    description.info.addresses = {Address::V4({127, 0, 0, 1})};
    return {description};
  }
  void Reserve(EndpointId endpoint, const std::string&, const Address&) override {
    sink_.OnReserved(endpoint, Status::Ok());
  }
  void Release(EndpointId) override {}
  void Listen(EndpointId endpoint, const std::string&, const Address& local) override {
    listening_[endpoint] = local;
  }
  void Unlisten(EndpointId endpoint) override { listening_.erase(endpoint); }
  void Connect(const ConnectParams& params) override {
    for (const auto& [endpoint, local] : listening_) {
      if (local != params.remote) continue;
      const CmId inbound{kInboundBit | ++last_};
      peer_[params.id] = inbound;
      peer_[inbound] = params.id;
      return sink_.OnRequest(
          {inbound, adapter_, local, params.local, true, params.offer, params.private_data});
    }
    sink_.OnRejected(params.id, {StatusCode::kConnectionRefused, "nobody listens", Detail::kNoListener}, {});
  }
  void Accept(CmId id, const AcceptParams& params) override {
    sink_.OnReply(peer_.at(id), true, params.limits, params.private_data);
  }
  void Reject(CmId id, Detail detail, const Bytes& data) override {
    sink_.OnRejected(Forget(id), {StatusCode::kConnectionRefused, "refused", detail}, data);
  }
  void Confirm(CmId id) override {
    const CmId peer = peer_.at(id);
    if (const Status made = MakeSeqpacketPair(&ends_[id], &ends_[peer]); !made.ok()) {
      sink_.OnLost(Forget(id), made, {});
      return sink_.OnLost(id, made, {});
    }
    sink_.OnEstablished(id);
    sink_.OnEstablished(peer);
  }
  void Abort(CmId id) override {
    if (ends_.erase(id) != 0) {
      peer_.erase(id);
    } else if (peer_.contains(id)) {
      sink_.OnLost(Forget(id), {StatusCode::kConnectionAborted, "withdrawn"}, {});
    }
  }
  void Disconnect(CmId) override {}
  Result<HandOff> TakeHandOff(CmId id) override {
    HandOff out;
    out.record.transport = kTransport;
    out.record.fd_count = 1;
    out.fds.push_back(std::move(ends_.at(id)));
    return out;
  }
  Result<Address> Resolve(const std::string&, const Address&) const override {
    return Address::V4({127, 0, 0, 1});
  }
  std::uint32_t handshakes() const override { return 0; }

 private:
  CmId Forget(CmId id) {
    const CmId peer = peer_.at(id);
    for (const CmId end : {id, peer}) {
      peer_.erase(end);
      ends_.erase(end);
    }
    return peer;
  }

  const std::string adapter_;
  CmSink& sink_;
  std::uint64_t last_ = 0;
  std::map<EndpointId, Address> listening_;
  std::map<CmId, CmId> peer_;
  std::map<CmId, UniqueFd> ends_;
};

}  // namespace

void PipeProvider::Read(std::string_view table, OptionTable& options) {
  if (table != "pipe") return;
  options.Bool("enabled", &enabled_);
  options.String("adapter", &adapter_);
}

Result<std::unique_ptr<ConnectionManager>> PipeProvider::Make(EventLoop&, CmSink& sink) const {
  return enabled_ ? std::make_unique<PipeCm>(adapter_, sink) : std::unique_ptr<ConnectionManager>();
}

}  // namespace nd::provider::pipe
