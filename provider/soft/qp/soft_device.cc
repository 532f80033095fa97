// SPDX-License-Identifier: Apache-2.0
// Creates the objects of one device.
#include "provider/soft/qp/soft_device.h"

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/completion_queue.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/srq.h"

namespace nd::provider::soft {
namespace {

template <typename Interface, typename T>
Result<std::shared_ptr<Interface>> As(Result<std::shared_ptr<T>> made) {
  if (!made.ok()) return made.status();
  return std::shared_ptr<Interface>(std::move(made).value());
}

class SoftDevice final : public Device {
 public:
  explicit SoftDevice(std::shared_ptr<DeviceCore> core) : core_(std::move(core)) {}

  Result<std::shared_ptr<Buffer>> AllocateBuffer(std::size_t size) override {
    if (core_->forked()) return InParent();
    return As<Buffer>(core_->AllocateBuffer(size));
  }
  Result<std::shared_ptr<MemoryRegion>> Register(void* address, std::size_t length,
                                                 std::uint32_t access) override {
    return As<MemoryRegion>(SoftRegion::Register(core_, address, length, access));
  }
  Result<std::shared_ptr<MemoryRegion>> RegisterAs(void* address, std::size_t length, std::uint32_t access,
                                                   const RegionOptions& options) override {
    return As<MemoryRegion>(SoftRegion::Register(core_, address, length, access, options));
  }
  Result<std::shared_ptr<MemoryWindow>> CreateVerbsWindow(WindowKind kind) override {
    if (core_->forked()) return InParent();
    return As<MemoryWindow>(SoftWindow::CreateForVerbs(core_, kind));
  }
  Result<std::shared_ptr<MemoryWindow>> CreateWindow() override {
    if (core_->forked()) return InParent();
    return std::shared_ptr<MemoryWindow>(std::make_shared<SoftWindow>(core_));
  }
  Result<std::shared_ptr<CompletionQueue>> CreateCompletionQueue(std::uint32_t depth) override {
    if (core_->forked()) return InParent();
    return As<CompletionQueue>(SoftCompletionQueue::Create(core_, depth));
  }
  Result<std::shared_ptr<SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t depth,
                                                                       std::uint32_t max_sge) override {
    if (core_->forked()) return InParent();
    if (Status bad = CheckSharedQueue(depth, max_sge, core_->info); !bad.ok()) return bad;
    return std::shared_ptr<SharedReceiveQueue>(
        std::make_shared<SoftSharedReceiveQueue>(core_, depth, max_sge));
  }
  Result<std::shared_ptr<QueuePair>> CreateQueuePair(const QpOptions& options) override {
    return As<QueuePair>(SoftQueuePair::Create(core_, options));
  }

 private:
  std::shared_ptr<DeviceCore> core_;
};

}  // namespace

Result<std::shared_ptr<Device>> MakeSoftDevice(const AdapterInfo& adapter, const DeviceOptions& options,
                                               const Tuning& tuning) {
  auto core = DeviceCore::Create(adapter, options, tuning);
  if (!core.ok()) return core.status();
  return std::shared_ptr<Device>(std::make_shared<SoftDevice>(std::move(core).value()));
}

}  // namespace nd::provider::soft
