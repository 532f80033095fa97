// SPDX-License-Identifier: Apache-2.0
// Opens the device by the name of its adapter and creates the other objects from it.
#include "provider/verbs/qp/verbs_device.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/device_limits.h"
#include "provider/verbs/qp/completion_queue.h"
#include "provider/verbs/qp/context.h"
#include "provider/verbs/qp/maker.h"
#include "provider/verbs/qp/memory.h"
#include "provider/verbs/qp/queue_pair.h"
#include "provider/verbs/qp/srq.h"
#include "provider/verbs/sysfs_linux.h"

namespace nd::provider::verbs {
namespace {

class VerbsDevice final : public Device {
 public:
  explicit VerbsDevice(std::shared_ptr<Context> context) : context_(std::move(context)) {}

  bool numbered() const override { return true; }
  Result<std::shared_ptr<Buffer>> AllocateBuffer(std::size_t size) override {
    return VerbsBuffer::Create(size);
  }
  Result<std::shared_ptr<MemoryRegion>> Register(void* address, std::size_t length,
                                                 std::uint32_t access) override {
    if (context_->forked()) return InParent();
    return VerbsRegion::Create(context_, address, length, access);
  }
  Result<std::shared_ptr<MemoryWindow>> CreateWindow() override {
    if (context_->forked()) return InParent();
    return VerbsWindow::Create(context_);
  }
  Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t depth) override {
    if (context_->forked()) return InParent();
    return VerbsCompletionQueue::Create(context_, depth);
  }
  Result<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t depth,
                                                                       std::uint32_t max_sge) override {
    if (context_->forked()) return InParent();
    return VerbsSharedReceiveQueue::Create(context_, depth, max_sge);
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    return VerbsQueuePair::Create(context_, options);
  }

 private:
  const std::shared_ptr<Context> context_;
};

}  // namespace

Context::Context() = default;

Context::~Context() {
  if (forked()) {
    static_cast<void>(maker_.release());  // The thread exists only in the parent.
    return;
  }
  if (pd != nullptr) ibv_dealloc_pd(pd);
  if (device != nullptr) ibv_close_device(device);
}

void Context::OnLastingThread(const std::function<void()>& make) {
  if (::gettid() == ::getpid()) return make();
  Maker* maker = nullptr;
  {
    const std::lock_guard lock(making_);
    if (!maker_) maker_ = std::make_unique<Maker>();
    maker = maker_.get();
  }
  maker->Run(make);
}

Status Context::CheckOwn(std::uint32_t qp_number) {
  const std::lock_guard lock(asking_);
  return nldev_.CheckQpOwner(device_index, port, qp_number, static_cast<std::uint32_t>(::getpid()));
}

void Context::DrainAsyncEvents() {
  ibv_async_event event{};
  while (ibv_get_async_event(device, &event) == 0) {
    if (event.event_type == IBV_EVENT_CQ_ERR) {
      static_cast<VerbsCompletionQueue*>(event.element.cq->cq_context)->MarkLost();
    }
    ibv_ack_async_event(&event);
  }
}

Result<std::shared_ptr<Device>> MakeVerbsDevice(const AdapterInfo& adapter, const DeviceOptions&) {
  const DevicePort wanted = ParseAdapterName(adapter.name);
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return OpenFailure(adapter.name, errno);
  auto context = std::make_shared<Context>();
  const int node = DeviceNodeError(wanted.device);
  Status failure = OpenFailure(wanted.device, node != 0 ? node : ENODEV);
  for (int i = 0; i < count; ++i) {
    if (wanted.device != ibv_get_device_name(list[i])) continue;
    errno = 0;
    context->device = ibv_open_device(list[i]);
    if (context->device == nullptr && node == 0) {
      failure = OpenFailure(wanted.device, errno == 0 ? EACCES : errno);
    }
  }
  ibv_free_device_list(list);
  if (context->device == nullptr) return failure;
  const int flags = ::fcntl(context->device->async_fd, F_GETFL);
  if (flags < 0 || ::fcntl(context->device->async_fd, F_SETFL, flags | O_NONBLOCK) != 0) {
    return OpenFailure(wanted.device, errno);
  }
  context->pd = ibv_alloc_pd(context->device);
  if (context->pd == nullptr) return OpenFailure(wanted.device, errno);
  context->port = wanted.port;
  context->iwarp = IsIwarp(*context->device);
  context->device_index = static_cast<std::uint32_t>(ibv_get_device_index(context->device->device));
  context->windows = adapter.max_window_size > 0;
  context->info = adapter;
  return std::shared_ptr<Device>(std::make_shared<VerbsDevice>(std::move(context)));
}

}  // namespace nd::provider::verbs
