// SPDX-License-Identifier: Apache-2.0
// Maps rights and tokens of Network Direct to those of the device. Refuses to deregister a region with a
// bound window.
#include "provider/verbs/qp/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/device_limits.h"

namespace nd::provider::verbs {
namespace {

std::uint32_t KeyOf(const ibv_mr* mr, std::uint32_t ibv_mr::*key) {
  return mr == nullptr ? 0 : mr->*key;
}

}  // namespace

Result<std::shared_ptr<Buffer>> VerbsBuffer::Create(std::size_t size) {
  if (size == 0) return Status{StatusCode::kInvalidParameter, "a buffer of no bytes"};
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  if (size > SIZE_MAX - page) return Status{StatusCode::kNoMemory, "a buffer of that size cannot exist"};
  const std::size_t rounded = (size + page - 1) / page * page;
  // A shared mapping: after a fork the parent keeps the pages that the device knows.
  void* const data = ::mmap(nullptr, rounded, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) {
    return Status{StatusCode::kNoMemory, std::string("no memory for the buffer: ") + std::strerror(errno)};
  }
  return std::shared_ptr<Buffer>(new VerbsBuffer(static_cast<std::byte*>(data), rounded));
}

VerbsBuffer::~VerbsBuffer() {
  ::munmap(data_, size_);
}

Result<std::shared_ptr<MemoryRegion>> VerbsRegion::Create(std::shared_ptr<Context> context, void* address,
                                                          std::size_t length, std::uint32_t access) {
  constexpr std::uint32_t kKnown = kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink;
  if ((access & ~kKnown) != 0) return Status{StatusCode::kInvalidParameter, "unknown access flags"};
  if (length == 0 || length > context->info.max_registration_size) {
    return Status{StatusCode::kInvalidParameter, "a region of 0 bytes or above max_registration_size"};
  }
  if (address == nullptr) return Status{StatusCode::kAccessViolation, "a region at address 0"};
  int rights = 0;
  if ((access & kAllowLocalWrite) != 0) rights |= IBV_ACCESS_LOCAL_WRITE;
  if ((access & kAllowRemoteRead) != 0) rights |= IBV_ACCESS_REMOTE_READ;
  if ((access & kAllowRemoteWrite) == kAllowRemoteWrite)
    rights |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if ((access & kRdmaReadSink) != 0) {
    rights |= IBV_ACCESS_LOCAL_WRITE;
    if (context->iwarp)
      rights |= IBV_ACCESS_REMOTE_WRITE;  // On iWARP a Read Response is a write by the peer.
  }
  if (context->windows) rights |= IBV_ACCESS_MW_BIND;
  errno = 0;
  ibv_mr* const mr = ibv_reg_mr(context->pd, address, length, rights);
  if (mr == nullptr) return PinFailure(length, errno);
  return std::shared_ptr<MemoryRegion>(new VerbsRegion(std::move(context), mr));
}

VerbsRegion::~VerbsRegion() {
  if (mr_ != nullptr && !context_->forked()) ibv_dereg_mr(mr_);
}

std::uint32_t VerbsRegion::local_token() const {
  std::lock_guard lock(mutex_);
  return KeyOf(mr_, &ibv_mr::lkey);
}

std::uint32_t VerbsRegion::remote_token() const {
  std::lock_guard lock(mutex_);
  return KeyOf(mr_, &ibv_mr::rkey);
}

bool VerbsRegion::Covers(const void* address, std::size_t length) const {
  std::lock_guard lock(mutex_);
  if (mr_ == nullptr) return false;
  const auto begin = reinterpret_cast<std::uintptr_t>(mr_->addr);
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at >= begin && length <= mr_->length && at - begin <= mr_->length - length;
}

Status VerbsRegion::Deregister() {
  std::lock_guard lock(mutex_);
  if (mr_ == nullptr) return {};
  if (context_->forked()) return InParent();
  if (windows_.load(std::memory_order_relaxed) > 0) {
    return {StatusCode::kDeviceBusy, "a memory window is bound to the region"};
  }
  if (const int error = ibv_dereg_mr(mr_); error != 0) {
    return {StatusCode::kDeviceBusy, "the device still uses the region", Detail::kNone, error};
  }
  mr_ = nullptr;
  return {};
}

Result<std::shared_ptr<MemoryWindow>> VerbsWindow::Create(std::shared_ptr<Context> context) {
  if (!context->windows) {
    return Status{StatusCode::kNotSupported, context->info.name + " has no memory windows of type 2"};
  }
  ibv_mw* const mw = ibv_alloc_mw(context->pd, IBV_MW_TYPE_2);
  if (mw == nullptr) {
    return Status{StatusCode::kInsufficientResources,
                  std::string("no memory window: ") + std::strerror(errno), Detail::kNone, errno};
  }
  return std::shared_ptr<MemoryWindow>(new VerbsWindow(std::move(context), mw));
}

VerbsWindow::~VerbsWindow() {
  if (!context_->forked()) ibv_dealloc_mw(mw_);
  Unbound();
}

std::uint32_t VerbsWindow::NextToken() const {
  const std::uint32_t last = token_.load(std::memory_order_relaxed);
  return ibv_inc_rkey(last == 0 ? mw_->rkey : last);
}

void VerbsWindow::Bound(std::shared_ptr<VerbsRegion> region, std::uint32_t token) {
  std::lock_guard lock(mutex_);
  region->AddWindow();
  std::swap(region, region_);
  if (region) region->RemoveWindow();
  token_.store(token, std::memory_order_relaxed);
}

void VerbsWindow::Unbound() {
  std::lock_guard lock(mutex_);
  if (region_) region_->RemoveWindow();
  region_.reset();
}

}  // namespace nd::provider::verbs
