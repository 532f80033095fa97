// SPDX-License-Identifier: Apache-2.0
// The answering end of `ndctl ping`. One thread per connection, so that a slow peer delays no other.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

#include "cli/ping.h"
#include "nd/nd.h"

namespace nd::cli {
namespace {

constexpr std::uint32_t kMaxConnections = 64;

// The objects of one connection, which live until its thread ends.
struct Echoer {
  Adapter adapter;
  Connector connector;
  CompletionQueue cq;
  Buffer buffer;
  MemoryRegion region;
  QueuePair qp;

  Status Prepare();
  void Run();

 private:
  Sge Slot(std::size_t index, std::uint32_t length) {
    return region.Slice(buffer.data() + index * kMaxPingSize, length);
  }
};

Status Echoer::Prepare() {
  auto new_cq = adapter.CreateCompletionQueue(4 * kPingDepth);
  if (!new_cq.ok()) return new_cq.status();
  cq = *new_cq;
  QueuePairOptions options;
  options.receive_cq = &cq;
  options.initiator_cq = &cq;
  options.receive_depth = kPingDepth;
  options.initiator_depth = kPingDepth;
  auto new_qp = adapter.CreateQueuePair(options);
  if (!new_qp.ok()) return new_qp.status();
  qp = *new_qp;
  auto new_buffer = adapter.AllocateBuffer(std::size_t{kPingDepth} * kMaxPingSize);
  if (!new_buffer.ok()) return new_buffer.status();
  buffer = *new_buffer;
  auto new_region = adapter.Register(buffer, kAllowLocalWrite);
  if (!new_region.ok()) return new_region.status();
  region = *new_region;
  for (std::size_t i = 0; i < kPingDepth; ++i) {
    const Sge sge = Slot(i, kMaxPingSize);
    Status posted = qp.Receive(buffer.data() + i * kMaxPingSize, {&sge, 1});
    if (!posted.ok()) return posted;
  }
  return Status::Ok();
}

void Echoer::Run() {
  if (!Prepare().ok()) {
    const Status ignored = connector.Reject();
    return;
  }
  ConnectOptions options;
  options.limits.inbound = std::min(options.limits.inbound, adapter.info().max_inbound_read_limit);
  options.limits.outbound = std::min(options.limits.outbound, adapter.info().max_outbound_read_limit);
  options.private_data = AsPrivateData(kPingMagic);
  if (!connector.Accept(qp, options).ok()) return;
  // The disconnect of the peer does not complete our receives; the flush does, which wakes the loop below.
  QueuePair flushed = qp;
  Request goodbye([&flushed](const Status&) { const Status ignored = flushed.Flush(); });
  const Status notify = connector.NotifyDisconnect(&goodbye);
  if (notify.pending()) {
    while (true) {
      const auto completion = cq.Next(std::chrono::hours(24));
      if (!completion.ok() || completion->status != StatusCode::kSuccess) break;
      if (completion->type != RequestType::kReceive) {
        // The echo is sent, so its slot is free for the next message.
        auto* slot = static_cast<std::byte*>(completion->request_context);
        const Sge sge = region.Slice(slot, kMaxPingSize);
        if (!qp.Receive(slot, {&sge, 1}).ok()) break;
        continue;
      }
      const Sge sge = region.Slice(completion->request_context, completion->bytes_transferred);
      if (!qp.Send(completion->request_context, {&sge, 1}).ok()) break;
    }
  }
  const Status ignored = connector.Disconnect();
}

}  // namespace

Failure ServePings(Context& context, const PingOptions& options) {
  auto local = Address::Parse(options.address);
  if (!local.ok()) {
    return Error{
        Exit::kUsage, "'" + options.address + "' is not an address", "write 10.0.0.1:7000 or [::1]:7000", {}};
  }
  OpenOptions open;
  open.broker = context.Directory();
  open.adapter = options.adapter;
  open.application = "ndctl-ping";
  open.reconnect = false;
  auto adapter = Adapter::Open(open);
  if (!adapter.ok()) return FailureOf(adapter.status(), "cannot use the broker in " + open.broker);
  auto listener = adapter->CreateListener();
  if (!listener.ok()) return FailureOf(listener.status(), "cannot make a listener");
  Status status = listener->Bind(*local);
  if (status.ok()) status = listener->Listen();
  if (!status.ok()) return FailureOf(status, "cannot listen on " + options.address);
  const auto bound = listener->GetLocalAddress();
  if (Failure failure = context.Write("listening on " + (bound.ok() ? *bound : *local).ToString() + "\n")) {
    return failure;
  }

  struct Worker {
    std::thread thread;
    std::shared_ptr<std::atomic<bool>> done;
  };
  std::vector<Worker> workers;
  const auto reap = [&workers](bool all) {
    std::erase_if(workers, [all](Worker& worker) {
      if (!all && !worker.done->load()) return false;
      worker.thread.join();
      return true;
    });
  };
  Failure failure;
  for (std::uint32_t served = 0; options.count == 0 || served < options.count; ++served) {
    auto connector = adapter->CreateConnector();
    status = connector.ok() ? listener->GetConnectionRequest(*connector) : connector.status();
    if (!status.ok()) {
      failure = FailureOf(status, "cannot take connection requests");
      break;
    }
    reap(false);
    if (workers.size() >= kMaxConnections) {
      const Status ignored = connector->Reject(AsPrivateData("ndctl ping: too many connections"));
      continue;
    }
    const auto echoer = std::make_shared<Echoer>();
    echoer->adapter = *adapter;
    echoer->connector = *connector;
    const auto done = std::make_shared<std::atomic<bool>>(false);
    workers.push_back({std::thread([echoer, done] {
                         echoer->Run();
                         done->store(true);
                       }),
                       done});
  }
  reap(true);
  return failure;
}

}  // namespace nd::cli
