// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/networkdirect_device_win.h"

#include <condition_variable>
#include <future>
#include <mutex>
#include <optional>
#include <utility>

#include "provider/networkdirect/dll_win.h"
#include "provider/networkdirect/qp/completion_queue_win.h"
#include "provider/networkdirect/qp/context_win.h"
#include "provider/networkdirect/qp/memory_win.h"
#include "provider/networkdirect/qp/queue_pair_win.h"

namespace nd::provider::networkdirect {
namespace {

// The daemon half answers from its tables.
constexpr std::chrono::seconds kMeetingTime{10};

class NetworkDirectDevice final : public Device {
 public:
  NetworkDirectDevice(const AdapterInfo& adapter, AdapterOpener open)
      : info_(adapter), open_(std::move(open)) {}

  TransportKind transport() const override { return kTransport; }
  bool numbered() const override { return true; }
  Status Meet(std::shared_ptr<DaemonHalf> daemon) override;
  void OnDaemonMessage(std::span<const std::byte> bytes) override;
  void OnDaemonBack() override;
  Status AwaitListening(const Address& local) override;

  Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t depth) override {
    return NdCompletionQueue::Make(context_, depth);
  }
  Result<std::shared_ptr<Buffer>> AllocateBuffer(std::size_t size) override { return NdBuffer::Make(size); }
  Result<std::shared_ptr<MemoryRegion>> Register(void* address, std::size_t length,
                                                 std::uint32_t access) override {
    return NdRegion::Make(context_, address, length, access);
  }
  Result<std::shared_ptr<MemoryWindow>> CreateWindow() override { return NdWindow::Make(context_); }
  Result<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t depth,
                                                                       std::uint32_t max_sge) override {
    return NdSharedReceiveQueue::Make(context_, depth, max_sge);
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    return NdQueuePair::Make(context_, options);
  }

 private:
  Message Hello() const;

  const AdapterInfo info_;
  const AdapterOpener open_;
  std::shared_ptr<DaemonHalf> daemon_;  // Fixed by Meet(), as the next one.
  std::shared_ptr<Context> context_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Message> welcome_;
  std::weak_ptr<Context> met_;  // For messages.
};

Message NetworkDirectDevice::Hello() const {
  Message hello;
  hello.kind = Kind::kHello;
  hello.text = info_.name;
  return hello;
}

Status NetworkDirectDevice::Meet(std::shared_ptr<DaemonHalf> daemon) {
  daemon_ = std::move(daemon);
  if (Status sent = daemon_->Send(Encode(Hello())); !sent.ok()) return sent;
  Message welcome;
  {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kMeetingTime, [this] { return welcome_.has_value(); })) {
      return {StatusCode::kDeviceNotReady, "the broker did not say where the DLL of the adapter is",
              Detail::kBrokerUnreachable};
    }
    welcome = *std::exchange(welcome_, std::nullopt);
  }
  if (!welcome.status.ok()) return welcome.status;
  auto adapter = open_(welcome.text, welcome.class_id, welcome.number);
  if (!adapter.ok()) return adapter.status();
  auto context = Context::Make(*std::move(adapter), info_);
  if (!context.ok()) return context.status();
  context_ = *std::move(context);
  context_->connections->SetDaemon(daemon_);
  std::lock_guard lock(mutex_);
  met_ = context_;
  return {};
}

void NetworkDirectDevice::OnDaemonMessage(std::span<const std::byte> bytes) {
  std::optional<Message> message = Decode(bytes);
  if (!message) return;
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(mutex_);
    context = met_.lock();
    if (message->kind == Kind::kWelcome && !context) {
      welcome_ = *std::move(message);
      changed_.notify_all();
      return;
    }
  }
  if (!context) return;
  context->engine->Post(
      [connections = context->connections, order = *std::move(message)] { connections->OnMessage(order); });
}

void NetworkDirectDevice::OnDaemonBack() {
  std::shared_ptr<Context> context;
  {
    std::lock_guard lock(mutex_);
    context = met_.lock();
  }
  if (!context) return;
  context->engine->Post([connections = context->connections] { connections->Forget(); });
  static_cast<void>(daemon_->Send(Encode(Hello())));
}

Status NetworkDirectDevice::AwaitListening(const Address& local) {
  std::promise<Status> answer;
  context_->engine->Post(
      [&, connections = context_->connections] { answer.set_value(connections->ListenStatusOf(local)); });
  return answer.get_future().get();
}

}  // namespace

Result<std::shared_ptr<Context>> Context::Make(Com<spi::IND2Adapter> adapter, const AdapterInfo& info) {
  auto context = std::make_shared<Context>();
  context->adapter = std::move(adapter);
  context->info = info;
  const HRESULT hr = context->adapter->CreateOverlappedFile(&context->file);
  if (Status status = StatusOf(hr, "CreateOverlappedFile"); !status.ok()) return status;
  context->engine = Engine::Make();
  context->connections = std::make_shared<Connections>(context->engine, context->adapter, context->file);
  return context;
}

Context::~Context() {
  if (engine) {
    engine->Post([connections = connections] { connections->Close(); });
    engine->Stop();
  }
  if (file != nullptr) ::CloseHandle(file);
}

Result<Com<spi::IND2Adapter>> OpenAdapterOfDll(const std::string& dll, const ClassId& class_id,
                                               std::uint64_t id) {
  auto provider = LoadProvider(dll, class_id);
  if (!provider.ok()) return provider.status();
  Com<spi::IND2Adapter> adapter;
  const HRESULT hr = (*provider)->OpenAdapter(spi::kIid<spi::IND2Adapter>, id, adapter.out());
  if (Status status = StatusOf(hr, "OpenAdapter"); !status.ok()) return status;
  return adapter;
}

std::shared_ptr<Device> MakeNetworkDirectDevice(const AdapterInfo& adapter, AdapterOpener open) {
  return std::make_shared<NetworkDirectDevice>(adapter, std::move(open));
}

Result<std::shared_ptr<Device>> OpenNetworkDirectDevice(const AdapterInfo& adapter,
                                                        const DeviceOptions& /*options*/) {
  return MakeNetworkDirectDevice(adapter, OpenAdapterOfDll);
}

}  // namespace nd::provider::networkdirect
