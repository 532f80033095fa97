// SPDX-License-Identifier: Apache-2.0
// Registration and deregistration. A region first leaves the table, then running accesses are awaited, so
// that its end is final.
#include "provider/soft/qp/memory.h"

#include <algorithm>
#include <thread>

#include "provider/queue_pair_rules.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

Result<std::shared_ptr<DeviceCore>> DeviceCore::Create(const AdapterInfo& info, const DeviceOptions& options,
                                                       const Tuning& tuning) {
  auto core = std::make_shared<DeviceCore>();
  core->info = info;
  core->tuning = tuning;
  core->progress_thread = options.progress_thread;
  auto regions = TokenTable::Create();
  if (!regions.ok()) return regions.status();
  core->regions = std::move(regions).value();
  RegisterGlobalBarrier();
  return core;
}

Result<std::shared_ptr<SoftBuffer>> DeviceCore::AllocateBuffer(std::size_t size) {
  if (size == 0 || size > info.max_registration_size) {
    return Status(StatusCode::kInvalidBufferSize, "a buffer has 1 to max_registration_size bytes");
  }
  auto fd = CreateSealedMemfd("ndbroker-buffer", size);
  if (!fd.ok()) return fd.status();
  auto checked = CheckSealedMemfd(fd->get(), size);
  if (!checked.ok()) return checked.status();
  auto mapping = Mapping::Map(fd->get(), *checked, true);
  if (!mapping.ok()) return mapping.status();
  std::lock_guard lock(buffers_mutex_);
  DropDeadBuffers();
  auto buffer =
      std::make_shared<SoftBuffer>(next_buffer_++, std::move(fd).value(), std::move(mapping).value());
  if (next_buffer_ == 0) next_buffer_ = 1;
  buffers_[buffer->data()] = buffer;
  return buffer;
}

void DeviceCore::DropDeadBuffers() {
  std::erase_if(buffers_, [](const auto& entry) { return entry.second.expired(); });
}

std::shared_ptr<SoftBuffer> DeviceCore::BufferAround(const void* address, std::size_t length) {
  const auto* first = static_cast<const std::byte*>(address);
  std::lock_guard lock(buffers_mutex_);
  auto after = buffers_.upper_bound(first);
  if (after == buffers_.begin()) return nullptr;
  std::shared_ptr<SoftBuffer> buffer = std::prev(after)->second.lock();
  if (!buffer) return nullptr;
  const auto offset = static_cast<std::size_t>(first - buffer->data());
  if (offset > buffer->size() || length > buffer->size() - offset) return nullptr;
  return buffer;
}

std::shared_ptr<SoftBuffer> DeviceCore::BufferById(std::uint32_t id) {
  std::lock_guard lock(buffers_mutex_);
  for (const auto& [address, weak] : buffers_) {
    std::shared_ptr<SoftBuffer> buffer = weak.lock();
    if (buffer && buffer->id() == id) return buffer;
  }
  return nullptr;
}

std::uint32_t DeviceCore::AddQueuePair(SoftQueuePair* queue_pair) {
  std::lock_guard lock(queue_pairs_mutex_);
  std::uint32_t number = 0;
  do {
    number = next_queue_pair_++;
  } while (number == 0 || !queue_pairs_.try_emplace(number, queue_pair).second);
  return number;
}

void DeviceCore::RemoveQueuePair(SoftQueuePair* queue_pair) {
  std::lock_guard lock(queue_pairs_mutex_);
  queue_pairs_.erase(queue_pair->number());
}

void DeviceCore::Quiesce(std::uint32_t stag) {
  // Numbers and not pointers: a queue pair may end while another one's peer is waited for.
  std::vector<std::uint32_t> touching;
  {
    std::lock_guard lock(queue_pairs_mutex_);
    for (const auto& [number, queue_pair] : queue_pairs_) {
      if (queue_pair->PeerTouches(stag)) touching.push_back(number);
    }
  }
  const Time give_up = Time(std::chrono::steady_clock::now()) + kRevokePatience;
  while (!touching.empty() && Time(std::chrono::steady_clock::now()) < give_up) {
    std::this_thread::yield();
    std::lock_guard lock(queue_pairs_mutex_);
    std::erase_if(touching, [&](std::uint32_t number) {
      const auto found = queue_pairs_.find(number);
      return found == queue_pairs_.end() || !found->second->PeerTouches(stag);
    });
  }
  if (touching.empty()) return;
  // Callbacks and the ends of other regions and windows run without a lock, because they may call this
  // function.
  std::vector<Deferred> deferred;
  {
    std::lock_guard lock(queue_pairs_mutex_);
    for (const std::uint32_t number : touching) {
      const auto found = queue_pairs_.find(number);
      if (found != queue_pairs_.end()) found->second->EndIfPeerTouches(stag, &deferred.emplace_back());
    }
  }
  for (Deferred& later : deferred) later.Run();
}

Result<std::shared_ptr<SoftRegion>> SoftRegion::Register(std::shared_ptr<DeviceCore> core, void* address,
                                                         std::size_t length, std::uint32_t access) {
  if (core->forked()) return InParent();
  if (address == nullptr) return Status(StatusCode::kInvalidParameter, "the address of a region is null");
  if (length == 0 || length > core->info.max_registration_size) {
    return Status(StatusCode::kInvalidBufferSize, "a region has 1 to max_registration_size bytes");
  }
  const auto base = reinterpret_cast<std::uintptr_t>(address);
  constexpr std::uint32_t kKnown =
      kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink | kAllowRemoteAtomic;
  if (length > UINTPTR_MAX - base || (access & ~kKnown) != 0) {
    return Status(StatusCode::kInvalidParameter, "the region wraps around or has unknown access flags");
  }
  std::shared_ptr<SoftRegion> region(new SoftRegion);
  region->buffer_ = core->BufferAround(address, length);
  RegionView& view = region->view_;
  view.access = access;
  view.base = base;
  view.length = length;
  if (region->buffer_) {
    view.buffer = region->buffer_->id();
    view.buffer_offset = base - reinterpret_cast<std::uintptr_t>(region->buffer_->data());
  }
  auto stag = core->regions->Insert(view);
  if (!stag.ok()) return stag.status();
  region->stag_ = view.stag = *stag;
  region->core_ = std::move(core);
  return region;
}

SoftRegion::~SoftRegion() {
  if (core_) (void)Deregister();
}

Status SoftRegion::Deregister() {
  {
    std::lock_guard lock(mutex_);
    if (bound_windows_ != 0) return {StatusCode::kDeviceBusy, "a memory window is still bound to the region"};
    if (!registered_) return Status::Ok();
    registered_ = false;
  }
  if (core_->forked()) return InParent();
  core_->regions->Remove(stag_);
  core_->Quiesce(stag_);
  buffer_.reset();  // A deregistered region must not keep a descriptor.
  return Status::Ok();
}

bool SoftRegion::Hold() {
  std::lock_guard lock(mutex_);
  if (!registered_) return false;
  ++bound_windows_;
  return true;
}

void SoftRegion::Unhold() {
  std::lock_guard lock(mutex_);
  --bound_windows_;
}

SoftWindow::~SoftWindow() {
  if (core_->forked()) return;
  for (std::uint32_t stag : BindingsExcept(0)) {
    const std::shared_ptr<SoftRegion> region = Shut(stag);
    core_->Quiesce(stag);
  }
}

Result<std::uint32_t> SoftWindow::Open(const std::shared_ptr<SoftRegion>& region, void* address,
                                       std::size_t length, std::uint32_t access, std::uint32_t queue_pair) {
  RegionView view = region->view();
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  if (length == 0 || length > core_->info.max_window_size || !view.Contains(first, length)) {
    return Status(StatusCode::kAccessViolation, "the window reaches outside its region");
  }
  if ((access & kAllowRemoteWrite) == kAllowRemoteWrite && (view.access & kAllowLocalWrite) == 0) {
    return Status(StatusCode::kAccessViolation, "a window for writing needs a region with local write");
  }
  if (!region->Hold()) return Status(StatusCode::kAccessViolation, "the region is deregistered");
  view.buffer_offset += first - view.base;
  view.base = first;
  view.length = length;
  view.access = access;
  view.queue_pair = queue_pair;
  auto stag = core_->regions->Insert(view);
  if (!stag.ok()) {
    region->Unhold();
    return stag;
  }
  std::lock_guard lock(mutex_);
  bindings_.push_back({*stag, region});
  token_.store(*stag, std::memory_order_release);
  return stag;
}

std::shared_ptr<SoftRegion> SoftWindow::Shut(std::uint32_t stag) {
  std::shared_ptr<SoftRegion> region;
  {
    std::lock_guard lock(mutex_);
    auto found = std::find_if(bindings_.begin(), bindings_.end(),
                              [stag](const Binding& binding) { return binding.stag == stag; });
    if (found == bindings_.end()) return nullptr;
    region = std::move(found->region);
    bindings_.erase(found);
  }
  core_->regions->Remove(stag);
  region->Unhold();
  return region;
}

std::vector<std::uint32_t> SoftWindow::BindingsExcept(std::uint32_t keep) {
  std::vector<std::uint32_t> others;
  std::lock_guard lock(mutex_);
  for (const Binding& binding : bindings_) {
    if (binding.stag != keep) others.push_back(binding.stag);
  }
  return others;
}

}  // namespace nd::provider::soft
