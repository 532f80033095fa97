// SPDX-License-Identifier: Apache-2.0
// The public class of an open adapter.
#include "nd/adapter.h"

#include <utility>
#include <vector>

#include "client-lib/core/open.h"
#include "client-lib/src/face.h"
#include "provider/regions.h"

namespace nd {

using client::Core;
using client::LocalAdapter;
using client::Made;
using client::Use;
using client::UseAny;

namespace {

client::Environment EnvironmentOf(const OpenOptions& options) {
  return client::HostEnvironment(options.broker, options.progress_thread);
}

// Null: the queue is missing.
template <typename Queue>
auto* CoreOrNull(const Queue* queue) {
  return queue == nullptr ? nullptr : Core(queue->impl());
}

}  // namespace

Adapter::Adapter(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<Adapter> Adapter::Open(const OpenOptions& options) {
  return Made<Adapter>(client::OpenAdapter(client::SessionOptionsOf(options), EnvironmentOf(options)));
}

Result<std::vector<AdapterInfo>> Adapter::QueryAdapters(const OpenOptions& options) {
  return client::ListAdapters(client::SessionOptionsOf(options), EnvironmentOf(options));
}

Result<std::vector<Address>> Adapter::QueryAddressList(const OpenOptions& options) {
  auto adapters = QueryAdapters(options);
  if (!adapters.ok()) return adapters.status();
  std::vector<Address> addresses;
  for (const AdapterInfo& info : *adapters) {
    addresses.insert(addresses.end(), info.addresses.begin(), info.addresses.end());
  }
  return addresses;
}

const AdapterInfo& Adapter::info() const {
  static const AdapterInfo* const none = new AdapterInfo;
  return impl_ ? Core(impl_)->session->info() : *none;
}

Result<Address> Adapter::ResolveAddress(const Address& remote) const {
  return Use(Core(impl_), [&](LocalAdapter& adapter) { return adapter.ResolveAddress(remote); });
}

Status Adapter::CheckAddress(const Address& local) const {
  return Use(Core(impl_), [&](LocalAdapter& adapter) { return adapter.CheckAddress(local); });
}

Result<Buffer> Adapter::AllocateBuffer(std::size_t size) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) -> Result<Buffer> {
    auto buffer = adapter.AllocateBuffer(size);
    if (!buffer.ok()) return buffer.status();
    return Buffer(std::move(buffer).value());
  });
}

Result<MemoryRegion> Adapter::Register(void* address, std::size_t length, std::uint32_t access) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) -> Result<MemoryRegion> {
    auto region = adapter.Register(address, length, access, 0);
    if (!region.ok()) return region.status();
    return MemoryRegion(std::move(region).value());
  });
}

Result<MemoryRegion> Adapter::Register(const Buffer& buffer, std::uint32_t access) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) -> Result<MemoryRegion> {
    auto region = adapter.Register(buffer.data(), buffer.size(), access, provider::kRegionOfBuffer);
    if (!region.ok()) return region.status();
    return MemoryRegion(std::move(region).value());
  });
}

Result<MemoryRegion> Adapter::Register(void* address, std::size_t length, std::uint32_t access,
                                       const RegionOptions& options) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) -> Result<MemoryRegion> {
    auto region = adapter.Register(address, length, access, 0, options);
    if (!region.ok()) return region.status();
    return MemoryRegion(std::move(region).value());
  });
}

Result<MemoryWindow> Adapter::CreateMemoryWindow() {
  return CreateMemoryWindow(WindowKind::kNetworkDirect);
}

Result<MemoryWindow> Adapter::CreateMemoryWindow(WindowKind kind) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) -> Result<MemoryWindow> {
    auto window = adapter.CreateMemoryWindow(kind);
    if (!window.ok()) return window.status();
    return MemoryWindow(std::move(window).value());
  });
}

Result<CompletionQueue> Adapter::CreateCompletionQueue(std::uint32_t depth) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) {
    return Made<CompletionQueue>(adapter.CreateCompletionQueue(depth));
  });
}

Result<SharedReceiveQueue> Adapter::CreateSharedReceiveQueue(std::uint32_t depth, std::uint32_t max_sge) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) {
    return Made<SharedReceiveQueue>(adapter.CreateSharedReceiveQueue(depth, max_sge));
  });
}

Result<QueuePair> Adapter::CreateQueuePair(const QueuePairOptions& options) {
  client::QueuePairArguments arguments;
  arguments.receive_cq = CoreOrNull(options.receive_cq);
  arguments.initiator_cq = CoreOrNull(options.initiator_cq);
  arguments.shares_receive_queue = options.shared_receive_queue != nullptr;
  arguments.shared_receive_queue = CoreOrNull(options.shared_receive_queue);
  arguments.context = options.context;
  arguments.receive_depth = options.receive_depth;
  arguments.initiator_depth = options.initiator_depth;
  arguments.max_receive_sge = options.max_receive_sge;
  arguments.max_initiator_sge = options.max_initiator_sge;
  arguments.inline_size = options.inline_data_size;
  return Use(Core(impl_),
             [&](LocalAdapter& adapter) { return Made<QueuePair>(adapter.CreateQueuePair(arguments)); });
}

Result<Connector> Adapter::CreateConnector() {
  return Use(Core(impl_), [](LocalAdapter& adapter) { return Made<Connector>(adapter.CreateConnector()); });
}

Result<Listener> Adapter::CreateListener() {
  return Use(Core(impl_), [](LocalAdapter& adapter) { return Made<Listener>(adapter.CreateListener()); });
}

Result<Listener> Adapter::NdkListen(const Address& local, std::function<void(Connector)> on_connect) {
  if (!on_connect) return Status(StatusCode::kInvalidParameter2, "no function to deliver connections to");
  return Use(Core(impl_), [&](LocalAdapter& adapter) {
    auto deliver = [on_connect = std::move(on_connect)](client::AppHandle<client::LocalConnector> connector) {
      on_connect(Connector(client::Face<Connector::Impl>(std::move(connector))));
    };
    return Made<Listener>(adapter.NdkListen(local, std::move(deliver)));
  });
}

Result<SharedEndpoint> Adapter::CreateSharedEndpoint(const Address& local) {
  return Use(Core(impl_), [&](LocalAdapter& adapter) {
    return Made<SharedEndpoint>(adapter.CreateSharedEndpoint(local));
  });
}

int Adapter::completion_handle() const {
  return impl_ ? Core(impl_)->session->port().handle() : -1;
}

Request* Adapter::PollRequest() {
  return impl_ ? static_cast<Request*>(Core(impl_)->PollCall()) : nullptr;
}

bool Adapter::connected() const {
  return impl_ && Core(impl_)->session->connected();
}

void Adapter::SetSessionCallback(std::function<void(bool connected)> callback) {
  if (impl_) Core(impl_)->SetSessionCallback(std::move(callback));
}

void Adapter::SetAdapterCallback(std::function<void(AdapterChange)> callback) {
  if (impl_) Core(impl_)->SetAdapterCallback(std::move(callback));
}

Status Adapter::Close() {
  return UseAny(Core(impl_), [](LocalAdapter& adapter) { return adapter.Close(); });
}

}  // namespace nd
