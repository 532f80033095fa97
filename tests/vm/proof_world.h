// SPDX-License-Identifier: Apache-2.0
// The provider's two halves without a daemon: a loop thread with the connection manager, a sink that applies
// attributes and records events, and calls that wait for events.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/event_loop.h"
#include "provider/qp.h"
#include "provider/verbs/cm/verbs_cm.h"
#include "provider/verbs/qp/verbs_device.h"

namespace nd::vm {

using provider::Bytes;
using provider::CmId;
using provider::EndpointId;

// A queue pair with queues and registered memory.
struct Side {
  std::shared_ptr<provider::Device> device;
  std::shared_ptr<provider::CompletionQueue> cq;
  std::shared_ptr<provider::QueuePair> qp;
  std::shared_ptr<provider::Buffer> buffer;
  std::shared_ptr<provider::MemoryRegion> region;
  std::byte* at(std::size_t offset) const { return buffer->data() + offset; }
  Sge sge(std::size_t offset, std::size_t length) const {
    return {at(offset), static_cast<std::uint32_t>(length), region->local_token()};
  }
  std::uint64_t address(std::size_t offset) const { return reinterpret_cast<std::uintptr_t>(at(offset)); }
  // The next completion, within 10 s.
  std::optional<Completion> Next(std::chrono::milliseconds patience = std::chrono::seconds(10)) const;
};

struct Told {
  bool replied = false, established = false, finished = false, peer_closed = false, disconnected = false;
  Status status;  // Of finished or disconnected.
  ReadLimits peer;
  Bytes data;
};

class World final : public provider::CmSink {
 public:
  World();
  ~World() override;

  // Runs on the loop's thread and waits.
  void OnLoop(const std::function<void(provider::verbs::VerbsCm&)>& function);
  std::optional<AdapterInfo> Adapter(const std::string& name);

  Side MakeSide(const AdapterInfo& adapter, std::size_t bytes = 1 << 16, std::uint32_t depth = 64);

  Status Reserve(EndpointId endpoint, const std::string& adapter, const Address& local);
  void Listen(EndpointId endpoint, const std::string& adapter, const Address& local);
  CmId Connect(const AdapterInfo& adapter, EndpointId endpoint, const Address& local, const Address& remote,
               const Side& side, ReadLimits offer, const Bytes& data, std::uint32_t pid = 0);
  std::optional<provider::InboundRequest> NextRequest();
  void Accept(CmId id, const Side& side, ReadLimits limits, const Bytes& data);
  // Gives the queue pair of an established connection its hand-over. `outbound`: the Reads that it may have
  // in flight.
  Status Attach(CmId id, const Side& side, std::uint32_t outbound);
  void Confirm(CmId id);
  // Waits until `ready` is true for this id; returns false after 20 s.
  bool Wait(CmId id, const std::function<bool(const Told&)>& ready);
  Told Of(CmId id);
  // Releases the queue pairs of these attempts.
  void Forget(std::initializer_list<CmId> ids);

  std::uint16_t next_port() { return port_++; }
  EndpointId next_endpoint() { return EndpointId{endpoint_++}; }

  void OnReserved(EndpointId endpoint, const Status& status) override;
  void OnRequest(const provider::InboundRequest& request) override;
  void OnReply(CmId id, bool limits_known, const ReadLimits& peer, const Bytes& data) override;
  void OnRejected(CmId id, const Status& status, const Bytes& data) override;
  void OnFailed(CmId id, const Status& status) override;
  void OnPrepare(CmId id, const Bytes& attributes) override;
  void OnEstablished(CmId id) override;
  void OnLost(CmId id, const Status& status, const Bytes& data) override;
  void OnPeerClosed(CmId id, DisconnectReason reason) override;
  void OnDisconnected(CmId id, const Status& status) override;
  void OnAdaptersChanged() override;

 private:
  void Finish(CmId id, const Status& status, const Bytes& data);
  template <typename Function>
  void Change(Function function);

  SystemClock clock_;
  EventLoop loop_{clock_};
  std::unique_ptr<provider::verbs::VerbsCm> cm_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<EndpointId, Status> reserved_;
  std::vector<provider::InboundRequest> requests_;
  std::map<CmId, Told> told_;
  std::map<CmId, std::shared_ptr<provider::QueuePair>> queue_pairs_;
  std::uint64_t next_id_ = 1, endpoint_ = 1;
  std::uint16_t port_ = 20000;
  std::thread thread_;
};

}  // namespace nd::vm
