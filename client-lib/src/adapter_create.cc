// SPDX-License-Identifier: Apache-2.0
// Creates memory, queues and queue pairs, which live in this process.
#include <utility>

#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/queue_impl.h"
#include "client-lib/src/queue_pair_impl.h"
#include "nd/adapter.h"

namespace nd {

using client::InvalidHandle;
using client::LeakInChild;
using client::MakeHandle;

namespace {

Status Usable(const std::shared_ptr<Adapter::Impl>& impl) {
  return impl ? impl->Check() : InvalidHandle("the adapter");
}

Status CheckRange(StatusCode code, const char* what, std::uint32_t value, std::uint32_t max,
                  std::uint32_t min = 0) {
  if (value >= min && value <= max) return {};
  return {code, std::string(what) + " is " + std::to_string(value) + "; allowed are " + std::to_string(min) +
                    " to " + std::to_string(max)};
}

template <typename Handle>
Status CheckQueue(StatusCode code, const char* what, const Handle* queue,
                  const std::shared_ptr<Adapter::Impl>& owner) {
  if (queue == nullptr || !queue->impl()) return {code, std::string(what) + " is missing"};
  if (queue->impl()->adapter != owner) return {code, std::string(what) + " belongs to another adapter"};
  if (!queue->impl()->usable()) return InvalidHandle(what);
  return {};
}

// Statuses are numbered by the fields of QueuePairOptions; the fourth, the context, is always valid.
Status CheckOptions(const QueuePairOptions& options, const AdapterInfo& info,
                    const std::shared_ptr<Adapter::Impl>& owner) {
  using enum StatusCode;
  const bool shared = options.shared_receive_queue != nullptr;
  const Status checks[] = {
      CheckQueue(kInvalidParameter1, "receive_cq", options.receive_cq, owner),
      CheckQueue(kInvalidParameter2, "initiator_cq", options.initiator_cq, owner),
      shared ? CheckQueue(kInvalidParameter3, "shared_receive_queue", options.shared_receive_queue, owner)
             : Status(),
      shared ? Status()
             : CheckRange(kInvalidParameter5, "receive_depth", options.receive_depth,
                          info.max_receive_queue_depth),
      CheckRange(kInvalidParameter6, "initiator_depth", options.initiator_depth,
                 info.max_initiator_queue_depth),
      shared
          ? Status()
          : CheckRange(kInvalidParameter7, "max_receive_sge", options.max_receive_sge, info.max_receive_sge),
      CheckRange(kInvalidParameter8, "max_initiator_sge", options.max_initiator_sge, info.max_initiator_sge),
      CheckRange(kInvalidParameter9, "inline_data_size", options.inline_data_size, info.max_inline_data_size),
  };
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  return {};
}

// Makes the queues outlive the queue pair; the destructor undoes it unless Keep() was called.
class Antecedents {
 public:
  bool Add(client::Lifetime& lifetime) {
    if (!lifetime.AddSuccessor()) return false;
    taken_.push_back(&lifetime);
    return true;
  }
  void Keep() { taken_.clear(); }
  ~Antecedents() {
    for (client::Lifetime* lifetime : taken_) lifetime->RemoveSuccessor();
  }

 private:
  std::vector<client::Lifetime*> taken_;
};

}  // namespace

Result<Buffer> Adapter::AllocateBuffer(std::size_t size) {
  if (Status status = Usable(impl_); !status.ok()) return status;
  if (size == 0) return Status(StatusCode::kInvalidBufferSize, "a buffer needs at least one byte");
  auto buffer = impl_->device->AllocateBuffer(size);
  if (!buffer.ok()) return buffer.status();
  return Buffer(LeakInChild(std::move(buffer).value()));
}

Result<MemoryRegion> Adapter::Register(void* address, std::size_t length, std::uint32_t access) {
  if (Status status = Usable(impl_); !status.ok()) return status;
  if (address == nullptr) return Status(StatusCode::kInvalidParameter, "no memory to register");
  const std::uint64_t max = info().max_registration_size;
  if (length == 0 || length > max) {
    return Status(StatusCode::kInvalidBufferSize, "a region of " + std::to_string(length) +
                                                      " bytes; allowed are 1 to " + std::to_string(max));
  }
  auto region = impl_->device->Register(address, length, access);
  if (!region.ok()) return region.status();
  auto kept = LeakInChild(std::move(region).value());
  std::lock_guard lock(impl_->mutex);
  auto& regions = impl_->regions;
  // Removes dead entries before the list would grow, so that its length stays proportional to the live ones.
  if (regions.size() == regions.capacity()) {
    std::erase_if(regions, [](const auto& weak) { return weak.expired(); });
  }
  regions.push_back(kept);
  return MemoryRegion(client::Listed(std::move(kept), impl_->session->regions(),
                                     {provider::RegionKind::kRegion, length, access, 0}));
}

Result<MemoryRegion> Adapter::Register(const Buffer& buffer, std::uint32_t access) {
  Result<MemoryRegion> region = Register(buffer.data(), buffer.size(), access);
  if (!region.ok()) return region;
  std::get_deleter<client::ListedRegion>(region->impl_)->SetFlags(provider::kRegionOfBuffer);
  return region;
}

Result<MemoryWindow> Adapter::CreateMemoryWindow() {
  if (Status status = Usable(impl_); !status.ok()) return status;
  auto window = impl_->device->CreateWindow();
  if (!window.ok()) return window.status();
  return MemoryWindow(client::Listed(LeakInChild(std::move(window).value()), impl_->session->regions(),
                                     {provider::RegionKind::kWindow, 0, 0, 0}));
}

Result<CompletionQueue> Adapter::CreateCompletionQueue(std::uint32_t depth) {
  if (Status status = Usable(impl_); !status.ok()) return status;
  Status range =
      CheckRange(StatusCode::kInvalidParameter1, "depth", depth, info().max_completion_queue_depth, 1);
  if (!range.ok()) return range;
  auto queue = impl_->device->CreateCompletionQueue(depth);
  if (!queue.ok()) return queue.status();
  auto made = std::make_shared<CompletionQueue::Impl>(impl_->shared_from_this(), std::move(queue).value());
  impl_->session->AddLive(made);
  return CompletionQueue(MakeHandle(std::move(made), impl_->use.lock()));
}

Result<SharedReceiveQueue> Adapter::CreateSharedReceiveQueue(std::uint32_t depth, std::uint32_t max_sge) {
  if (Status status = Usable(impl_); !status.ok()) return status;
  const AdapterInfo& limits = info();
  Status range =
      CheckRange(StatusCode::kInvalidParameter1, "depth", depth, limits.max_shared_receive_queue_depth, 1);
  if (range.ok())
    range = CheckRange(StatusCode::kInvalidParameter2, "max_sge", max_sge, limits.max_receive_sge);
  if (!range.ok()) return range;
  auto queue = impl_->device->CreateSharedReceiveQueue(depth, max_sge);
  if (!queue.ok()) return queue.status();
  auto made = std::make_shared<SharedReceiveQueue::Impl>(impl_->shared_from_this(), std::move(queue).value());
  impl_->session->AddLive(made);
  return SharedReceiveQueue(MakeHandle(std::move(made), impl_->use.lock()));
}

Result<QueuePair> Adapter::CreateQueuePair(const QueuePairOptions& options) {
  if (Status status = Usable(impl_); !status.ok()) return status;
  const std::shared_ptr<Impl> owner = impl_->shared_from_this();
  if (Status status = CheckOptions(options, info(), owner); !status.ok()) return status;

  Antecedents antecedents;
  const auto real = [](const auto* handle) { return handle->impl()->shared_from_this(); };
  const auto receive_cq = std::static_pointer_cast<CompletionQueue::Impl>(real(options.receive_cq));
  const auto initiator_cq = std::static_pointer_cast<CompletionQueue::Impl>(real(options.initiator_cq));
  std::shared_ptr<SharedReceiveQueue::Impl> srq;
  if (options.shared_receive_queue != nullptr) {
    srq = std::static_pointer_cast<SharedReceiveQueue::Impl>(real(options.shared_receive_queue));
  }
  if (!antecedents.Add(receive_cq->lifetime) || !antecedents.Add(initiator_cq->lifetime) ||
      (srq && !antecedents.Add(srq->lifetime))) {
    return InvalidHandle("a queue");
  }

  const client::Session::Life own = impl_->session->adapter();
  session::CreateQueuePairOp op{own.handle, options.receive_depth, options.initiator_depth, 0};

  provider::QpOptions inner;
  inner.receive_cq = receive_cq->real;
  inner.initiator_cq = initiator_cq->real;
  if (srq) inner.srq = srq->real;
  inner.context = options.context;
  inner.receive_depth = options.receive_depth;
  inner.initiator_depth = options.initiator_depth;
  inner.max_receive_sge = options.max_receive_sge;
  inner.max_initiator_sge = options.max_initiator_sge;
  inner.inline_size = options.inline_data_size;
  // The owner is known only after the broker has assigned a handle.
  const auto owner_of = std::make_shared<std::weak_ptr<QueuePair::Impl>>();
  inner.on_peer_closed = [owner_of](DisconnectReason reason, Status cause) {
    if (auto queue_pair = owner_of->lock()) queue_pair->OnPeerClosed(reason, std::move(cause));
  };
  Result<std::shared_ptr<provider::QueuePair>> queue_pair(StatusCode::kUnsuccessful);
  const bool numbered = impl_->device->numbered();
  if (numbered) {
    queue_pair = impl_->device->CreateQueuePair(inner);
    if (!queue_pair.ok()) return queue_pair.status();
    op.device_number = (*queue_pair)->device_number();
  }
  auto reply = impl_->session->Call(op, own.epoch);
  if (!reply.ok()) return reply.status();

  auto made = std::make_shared<QueuePair::Impl>(owner, client::Session::Life{reply->handle, own.epoch});
  *owner_of = made;
  made->options = options;
  made->options.receive_cq = made->options.initiator_cq = nullptr;
  made->options.shared_receive_queue = nullptr;
  made->receive_cq = receive_cq;
  made->initiator_cq = initiator_cq;
  made->srq = srq;
  made->counters = impl_->session->counters();
  inner.counters = made->counters ? made->counters->Slot(reply->counter_slot) : nullptr;
  impl_->session->regions()->Use(made->counters);
  made->counted = inner.counters;
  if (!numbered) {
    queue_pair = impl_->device->CreateQueuePair(inner);
  } else if (inner.counters != nullptr) {
    (*queue_pair)->UseCounters(inner.counters);
  }
  if (!queue_pair.ok()) {
    static_cast<void>(
        impl_->session->Submit(session::CloseOp{reply->handle}, own.epoch, [](const client::Reply&) {}));
    return queue_pair.status();
  }
  made->real = LeakInChild(std::move(queue_pair).value());
  antecedents.Keep();
  impl_->session->AddLive(made);
  return QueuePair(MakeHandle(std::move(made), impl_->use.lock()));
}

}  // namespace nd
