// SPDX-License-Identifier: Apache-2.0
// Registration and deregistration. A region first leaves the table, then running accesses are awaited, so
// that its end is final.
#include "provider/soft/qp/memory.h"

#include <algorithm>
#include <thread>

#include "base/lent_memory.h"
#include "base/os/memfd_behind.h"
#include "provider/queue_pair_rules.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/sync.h"

namespace nd::provider::soft {

namespace {

// Rights are sets of bits that overlap.
bool Has(std::uint32_t access, std::uint32_t right) {
  return (access & right) == right;
}
bool Writes(std::uint32_t access) {
  return Has(access, kAllowRemoteWrite) || Has(access, kAllowRemoteAtomic);
}

// A peer that maps a memfd gets no right to write that a region with these rights does not give.
bool MayGive(const os::MemfdBehind& memory, std::uint32_t access) {
  return Writes(access) ? memory.writable : memory.sealed_against_writing;
}

}  // namespace

Result<std::shared_ptr<DeviceCore>> DeviceCore::Create(const AdapterInfo& info, const DeviceOptions& options,
                                                       const Tuning& tuning) {
  auto core = std::make_shared<DeviceCore>();
  core->info = info;
  core->tuning = tuning;
  core->progress_thread = options.progress_thread;
  auto regions = TokenTable::Create();
  if (!regions.ok()) return regions.status();
  core->regions = std::move(regions).value();
  RegisterProcessBarrier();
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
      std::make_shared<SoftBuffer>(NextBufferId(), std::move(fd).value(), std::move(mapping).value());
  buffers_[buffer->data()] = buffer;
  return buffer;
}

void DeviceCore::DropDeadBuffers() {
  std::erase_if(buffers_, [](const auto& entry) { return entry.second.expired(); });
}

std::uint32_t DeviceCore::NextBufferId() {
  const std::uint32_t id = next_buffer_++;
  if (next_buffer_ == 0) next_buffer_ = 1;
  return id;
}

std::shared_ptr<SoftBuffer> DeviceCore::Borrow(void* address, std::size_t length, std::uint32_t access) {
  if (!tuning.direct_access || !tuning.process_access) return nullptr;
  std::optional<os::MemfdBehind> found = FindLentMemory(address, length);
  const bool lent = found.has_value();
  if (!lent && (Writes(access) || Has(access, kAllowRemoteRead))) {
    found = os::FindMemfdBehind(address, length);
  }
  if (!found || (!lent && !MayGive(*found, access))) return nullptr;
  std::byte* const data = found->begin;
  std::lock_guard lock(buffers_mutex_);
  std::uint32_t id = 0;
  for (const Borrowed& known : borrowed_) {
    if (known.number != found->number) continue;
    id = known.id;
    std::shared_ptr<SoftBuffer> buffer = known.buffer.lock();
    if (buffer && buffer->data() == data) return buffer;
  }
  std::erase_if(borrowed_, [&](const Borrowed& known) {
    return known.buffer.expired() && (known.id == id || borrowed_.size() >= kMostBorrowed);
  });
  if (id == 0) id = NextBufferId();
  auto buffer = std::make_shared<SoftBuffer>(id, std::move(found->fd), data, found->size, lent);
  borrowed_.push_back({found->number, id, buffer});
  return buffer;
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
  for (const Borrowed& borrowed : borrowed_) {
    std::shared_ptr<SoftBuffer> buffer = borrowed.buffer.lock();
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

// Numbers and not pointers: a queue pair may end while another one's peer is waited for.
void DeviceCore::Quiesce(std::uint32_t stag, bool ordinary) {
  std::vector<std::uint32_t> touching;
  {
    std::lock_guard lock(queue_pairs_mutex_);
    for (const auto& [number, queue_pair] : queue_pairs_) {
      if (queue_pair->PeerTouches(stag)) touching.push_back(number);
    }
  }
  const Time give_up = Time(std::chrono::steady_clock::now()) + kRevokePatience;
  bool late = false;
  while (!touching.empty() && !late) {
    std::this_thread::yield();
    late = Time(std::chrono::steady_clock::now()) >= give_up;
    KeepIf(touching, [stag](SoftQueuePair& queue_pair) { return queue_pair.PeerTouches(stag); });
  }
  std::vector<std::uint32_t> waited_for = ordinary ? touching : std::vector<std::uint32_t>();
  KeepIf(waited_for, [](SoftQueuePair& queue_pair) { return queue_pair.PeerLives(); });
  std::erase_if(touching, [&](std::uint32_t number) {
    return std::find(waited_for.begin(), waited_for.end(), number) != waited_for.end();
  });
  EndThoseThatTouch(stag, touching);
  while (!waited_for.empty()) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    KeepIf(waited_for, [stag](SoftQueuePair& queue_pair) {
      return queue_pair.PeerTouches(stag) && queue_pair.PeerLives();
    });
  }
  if (ordinary) former_peers.Await(stag);
}

template <typename Predicate>
void DeviceCore::KeepIf(std::vector<std::uint32_t>& numbers, Predicate&& predicate) {
  std::lock_guard lock(queue_pairs_mutex_);
  std::erase_if(numbers, [&](std::uint32_t number) {
    const auto found = queue_pairs_.find(number);
    return found == queue_pairs_.end() || !predicate(*found->second);
  });
}

// Callbacks and the ends of other regions and windows run without a lock, because they may call Quiesce().
void DeviceCore::EndThoseThatTouch(std::uint32_t stag, const std::vector<std::uint32_t>& numbers) {
  std::vector<Deferred> deferred;
  {
    std::lock_guard lock(queue_pairs_mutex_);
    for (const std::uint32_t number : numbers) {
      const auto found = queue_pairs_.find(number);
      if (found != queue_pairs_.end()) found->second->EndIfPeerTouches(stag, &deferred.emplace_back());
    }
  }
  for (Deferred& later : deferred) later.Run();
}

Result<RegionView> SoftRegion::Describe(void* address, std::size_t length, std::uint32_t access,
                                        const RegionOptions& options,
                                        std::shared_ptr<SoftBuffer>* buffer) const {
  if (address == nullptr) return Status(StatusCode::kInvalidParameter, "the address of a region is null");
  if (length == 0 || length > core_->info.max_registration_size) {
    return Status(StatusCode::kInvalidBufferSize, "a region has 1 to max_registration_size bytes");
  }
  const auto memory = reinterpret_cast<std::uintptr_t>(address);
  const std::uint64_t base = options.remote_base.value_or(memory);
  constexpr std::uint32_t kKnown =
      kAllowLocalWrite | kAllowRemoteRead | kAllowRemoteWrite | kRdmaReadSink | kAllowRemoteAtomic;
  if (length > UINTPTR_MAX - memory || length > UINT64_MAX - base || (access & ~kKnown) != 0) {
    return Status(StatusCode::kInvalidParameter, "the region wraps around or has unknown access flags");
  }
  *buffer = core_->BufferAround(address, length);
  RegionView view;
  view.access = access;
  view.base = base;
  view.length = length;
  view.shift = memory - base;
  view.domain = options.domain;
  if (!*buffer) *buffer = core_->Borrow(address, length, access);
  if (*buffer) {
    ((*buffer)->borrowed() ? view.borrowed : view.buffer) = (*buffer)->id();
    view.buffer_offset = memory - reinterpret_cast<std::uintptr_t>((*buffer)->data());
  }
  return view;
}

Result<std::shared_ptr<SoftRegion>> SoftRegion::Register(std::shared_ptr<DeviceCore> core, void* address,
                                                         std::size_t length, std::uint32_t access,
                                                         const RegionOptions& options) {
  if (core->forked()) return InParent();
  std::shared_ptr<SoftRegion> region(new SoftRegion(std::move(core)));
  auto view = region->Describe(address, length, access, options, &region->buffer_);
  if (!view.ok()) return view.status();
  region->view_ = *view;
  auto stag = region->core_->regions->Insert(region->view_);
  if (!stag.ok()) return stag.status();
  region->stag_ = region->view_.stag = *stag;
  region->registered_ = true;
  return region;
}

Status SoftRegion::Change(void* address, std::size_t length, std::uint32_t access,
                          const RegionOptions& options) {
  if (core_->forked()) return InParent();
  std::shared_ptr<SoftBuffer> buffer;
  auto view = Describe(address, length, access, options, &buffer);
  if (!view.ok()) return view.status();
  view->stag = stag_;
  {
    std::lock_guard lock(mutex_);
    if (bound_windows_ != 0) return {StatusCode::kDeviceBusy, "a memory window is still bound to the region"};
    if (!registered_) return {StatusCode::kInvalidParameter, "the region is deregistered"};
    registered_ = false;  // No window is bound meanwhile.
  }
  core_->regions->Withdraw(stag_);
  core_->Quiesce(stag_, ordinary());
  std::lock_guard lock(mutex_);
  view_ = *view;
  std::swap(buffer_, buffer);
  core_->regions->Publish(stag_, view_);
  registered_ = true;
  return Status::Ok();
}

RegionView SoftRegion::view() {
  std::lock_guard lock(mutex_);
  return view_;
}

SoftRegion::~SoftRegion() {
  (void)Deregister();
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
  core_->Quiesce(stag_, ordinary());
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

Result<std::shared_ptr<SoftWindow>> SoftWindow::CreateForVerbs(std::shared_ptr<DeviceCore> core,
                                                               WindowKind kind) {
  auto stag = core->regions->Reserve();
  if (!stag.ok()) return stag.status();
  auto window = std::make_shared<SoftWindow>(std::move(core));
  window->kind_ = kind;
  window->reserved_ = *stag;
  window->token_.store(*stag, std::memory_order_release);
  return window;
}

SoftWindow::~SoftWindow() {
  if (core_->forked()) return;
  for (std::uint32_t stag : BindingsExcept(0)) {
    const std::shared_ptr<SoftRegion> region = Shut(stag);
    core_->Quiesce(stag, false);  // The ordinary memory of a window is reached through the ring.
  }
  if (reserved_ != 0) core_->regions->Release(reserved_);
}

Result<RegionView> SoftWindow::Describe(const std::shared_ptr<SoftRegion>& region, std::uint64_t address,
                                        std::uint64_t length, std::uint32_t access,
                                        std::uint32_t queue_pair) const {
  RegionView view = region->view();
  if (length == 0 || length > core_->info.max_window_size || !view.Contains(address, length)) {
    return Status(StatusCode::kAccessViolation, "the window reaches outside its region");
  }
  if ((access & kAllowLocalWrite) != 0 && (view.access & kAllowLocalWrite) == 0) {
    return Status(StatusCode::kAccessViolation, "a window for writing needs a region with local write");
  }
  if (!region->Hold()) return Status(StatusCode::kAccessViolation, "the region is deregistered");
  view.buffer_offset += address - view.base;
  view.base = address;
  view.length = length;
  view.access = access;
  view.queue_pair = queue_pair;
  view.window = true;
  view.borrowed = 0;  // The end of a window does not wait for those that map the memory.
  return view;
}

Result<std::uint32_t> SoftWindow::Open(const std::shared_ptr<SoftRegion>& region, void* address,
                                       std::size_t length, std::uint32_t access, std::uint32_t queue_pair) {
  auto view = Describe(region, reinterpret_cast<std::uintptr_t>(address), length, access, queue_pair);
  if (!view.ok()) return view.status();
  auto stag = core_->regions->Insert(*view);
  if (!stag.ok()) {
    region->Unhold();
    return stag;
  }
  std::lock_guard lock(mutex_);
  bindings_.push_back({*stag, region});
  token_.store(*stag, std::memory_order_release);
  return stag;
}

Status SoftWindow::OpenAs(const std::shared_ptr<SoftRegion>& region, const WindowBinding& binding,
                          std::uint32_t queue_pair, std::uint32_t domain) {
  constexpr std::uint32_t kChosenBits = 0xff;
  if (((binding.token ^ reserved_) & ~kChosenBits) != 0) {
    return {StatusCode::kAccessViolation, "the token belongs to another window"};
  }
  if (region->view().domain != domain) {
    return {StatusCode::kAccessViolation, "the region and the queue pair are not of one domain"};
  }
  std::lock_guard lock(mutex_);
  if (!bindings_.empty()) return {StatusCode::kAccessViolation, "the window is bound already"};
  const bool for_all = kind_ == WindowKind::kVerbsType1;
  auto view = Describe(region, binding.address, binding.length, binding.access, for_all ? 0 : queue_pair);
  if (!view.ok()) return view.status();
  bindings_.push_back({binding.token, region});
  core_->regions->Publish(binding.token, *view);
  token_.store(binding.token, std::memory_order_release);
  return Status::Ok();
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
    // Another binding of a verbs window may open as soon as the lock is free.
    core_->regions->Withdraw(stag);
  }
  if (reserved_ == 0) core_->regions->Release(stag);
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
