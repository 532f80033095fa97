// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/memory_win.h"

#include <utility>

#include "provider/queue_pair_rules.h"

namespace nd::provider::networkdirect {

Result<std::shared_ptr<Buffer>> NdBuffer::Make(std::size_t size) {
  if (size == 0) return Status{StatusCode::kInvalidParameter, "a buffer of 0 bytes"};
  void* const memory = ::VirtualAlloc(nullptr, size, MEM_COMMIT | MEM_RESERVE, PAGE_READWRITE);
  if (memory == nullptr) return Status{StatusCode::kNoMemory, "the system has no memory for the buffer"};
  return std::shared_ptr<Buffer>(std::make_shared<NdBuffer>(static_cast<std::byte*>(memory), size));
}

NdBuffer::~NdBuffer() {
  ::VirtualFree(data_, 0, MEM_RELEASE);
}

Result<std::shared_ptr<MemoryRegion>> NdRegion::Make(const std::shared_ptr<Context>& context, void* address,
                                                     std::size_t length, std::uint32_t access) {
  constexpr std::uint32_t kAtomicAlone = kAllowRemoteAtomic & ~std::uint32_t{kAllowLocalWrite};
  if ((access & kAtomicAlone) != 0) {
    return Status{StatusCode::kNotSupported, "Network Direct knows no atomic operations"};
  }
  Com<spi::IND2MemoryRegion> region;
  HRESULT hr =
      context->adapter->CreateMemoryRegion(spi::kIid<spi::IND2MemoryRegion>, context->file, region.out());
  if (Status status = StatusOf(hr, "CreateMemoryRegion"); !status.ok()) return status;
  hr = Await(*region.get(),
             [&](OVERLAPPED* overlapped) { return region->Register(address, length, access, overlapped); });
  if (Status status = StatusOf(hr, "Register"); !status.ok()) return status;
  return std::shared_ptr<MemoryRegion>(std::make_shared<NdRegion>(context, std::move(region)));
}

NdRegion::NdRegion(std::shared_ptr<Context> context, Com<spi::IND2MemoryRegion> region)
    : context_(std::move(context)),
      region_(std::move(region)),
      local_token_(region_->GetLocalToken()),
      remote_token_(region_->GetRemoteToken()) {}

NdRegion::~NdRegion() {
  static_cast<void>(Deregister());
}

Status NdRegion::Deregister() {
  std::lock_guard lock(mutex_);
  if (!registered_) return {};
  const HRESULT hr =
      Await(*region_.get(), [&](OVERLAPPED* overlapped) { return region_->Deregister(overlapped); });
  Status status = StatusOf(hr, "Deregister");
  registered_ = !status.ok();
  return status;
}

Result<std::shared_ptr<MemoryWindow>> NdWindow::Make(const std::shared_ptr<Context>& context) {
  Com<spi::IND2MemoryWindow> window;
  const HRESULT hr = context->adapter->CreateMemoryWindow(spi::kIid<spi::IND2MemoryWindow>, window.out());
  if (Status status = StatusOf(hr, "CreateMemoryWindow"); !status.ok()) return status;
  return std::shared_ptr<MemoryWindow>(std::make_shared<NdWindow>(context, std::move(window)));
}

Result<std::shared_ptr<SharedReceiveQueue>> NdSharedReceiveQueue::Make(
    const std::shared_ptr<Context>& context, std::uint32_t depth, std::uint32_t max_sge) {
  if (Status status = CheckSharedQueue(depth, max_sge, context->info); !status.ok()) return status;
  Com<spi::IND2SharedReceiveQueue> queue;
  const HRESULT hr = context->adapter->CreateSharedReceiveQueue(
      spi::kIid<spi::IND2SharedReceiveQueue>, context->file, depth, max_sge, 0, 0, 0, queue.out());
  if (Status status = StatusOf(hr, "CreateSharedReceiveQueue"); !status.ok()) return status;
  return std::shared_ptr<SharedReceiveQueue>(
      std::make_shared<NdSharedReceiveQueue>(context, std::move(queue), max_sge));
}

Status NdSharedReceiveQueue::Receive(void* request_context, std::span<const Sge> sges) {
  std::uint32_t length = 0;
  Status status = CheckSges(sges, max_sge_, context_->info.max_transfer_length, &length);
  if (!status.ok()) return status;
  return StatusOf(queue_->Receive(request_context, sges.data(), static_cast<ULONG>(sges.size())), "Receive");
}

Status NdSharedReceiveQueue::Resize(std::uint32_t depth) {
  return StatusOf(queue_->Modify(depth, 0), "Modify");
}

}  // namespace nd::provider::networkdirect
