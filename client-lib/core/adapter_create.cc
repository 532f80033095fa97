// SPDX-License-Identifier: Apache-2.0
// Creates memory, queues and queue pairs, which live in this process.
#include <algorithm>
#include <string>
#include <utility>

#include "client-lib/core/adapter.h"
#include "client-lib/core/listed_regions.h"
#include "client-lib/core/queue_pair.h"
#include "client-lib/core/queues.h"

namespace nd::client {
namespace {

Status CheckRange(StatusCode code, const char* what, std::uint32_t value, std::uint32_t max,
                  std::uint32_t min = 0) {
  if (value >= min && value <= max) return {};
  return {code, std::string(what) + " is " + std::to_string(value) + "; allowed are " + std::to_string(min) +
                    " to " + std::to_string(max)};
}

template <typename Queue>
Status CheckQueue(StatusCode code, const char* what, const Queue* queue, const LocalAdapter* owner) {
  if (queue == nullptr) return {code, std::string(what) + " is missing"};
  if (queue->adapter.get() != owner) return {code, std::string(what) + " belongs to another adapter"};
  if (!queue->usable()) return InvalidHandle(what);
  return {};
}

// Makes the queues outlive the queue pair; the destructor undoes it unless Keep() was called.
class Antecedents {
 public:
  bool Add(Lifetime& lifetime) {
    if (!lifetime.AddSuccessor()) return false;
    taken_.push_back(&lifetime);
    return true;
  }
  void Keep() { taken_.clear(); }
  ~Antecedents() {
    for (Lifetime* lifetime : taken_) lifetime->RemoveSuccessor();
  }

 private:
  std::vector<Lifetime*> taken_;
};

}  // namespace

Status LocalAdapter::CheckArguments(const QueuePairArguments& arguments) const {
  using enum StatusCode;
  const AdapterInfo& info = session->info();
  const bool shared = arguments.shares_receive_queue;
  // The fourth argument, the context, is always valid.
  const Status checks[] = {
      CheckQueue(kInvalidParameter1, "receive_cq", arguments.receive_cq, this),
      CheckQueue(kInvalidParameter2, "initiator_cq", arguments.initiator_cq, this),
      shared ? CheckQueue(kInvalidParameter3, "shared_receive_queue", arguments.shared_receive_queue, this)
             : Status(),
      shared ? Status()
             : CheckRange(kInvalidParameter5, "receive_depth", arguments.receive_depth,
                          info.max_receive_queue_depth),
      CheckRange(kInvalidParameter6, "initiator_depth", arguments.initiator_depth,
                 info.max_initiator_queue_depth),
      shared ? Status()
             : CheckRange(kInvalidParameter7, "max_receive_sge", arguments.max_receive_sge,
                          info.max_receive_sge),
      CheckRange(kInvalidParameter8, "max_initiator_sge", arguments.max_initiator_sge,
                 info.max_initiator_sge),
      CheckRange(kInvalidParameter9, "inline_data_size", arguments.inline_size, info.max_inline_data_size),
  };
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  return {};
}

Result<std::shared_ptr<provider::Buffer>> LocalAdapter::AllocateBuffer(std::size_t size) {
  if (size == 0) return Status(StatusCode::kInvalidBufferSize, "a buffer needs at least one byte");
  auto buffer = device_->AllocateBuffer(size);
  if (!buffer.ok()) return buffer.status();
  return LeakInChild(std::move(buffer).value());
}

Result<std::shared_ptr<provider::MemoryRegion>> LocalAdapter::Register(void* address, std::size_t length,
                                                                       std::uint32_t access,
                                                                       std::uint32_t flags,
                                                                       const RegionOptions& options) {
  if (address == nullptr) return Status(StatusCode::kInvalidParameter, "no memory to register");
  const std::uint64_t max = session->info().max_registration_size;
  if (length == 0 || length > max) {
    return Status(StatusCode::kInvalidBufferSize, "a region of " + std::to_string(length) +
                                                      " bytes; allowed are 1 to " + std::to_string(max));
  }
  const bool plain = options.domain == 0 && !options.remote_base;
  auto region = plain ? device_->Register(address, length, access)
                      : device_->RegisterAs(address, length, access, options);
  if (!region.ok()) return region.status();
  auto kept = LeakInChild(std::move(region).value());
  std::lock_guard lock(mutex_);
  // Removes dead entries before the list would grow, so that its length stays proportional to the live ones.
  if (regions_.size() == regions_.capacity()) {
    std::erase_if(regions_, [](const auto& weak) { return weak.expired(); });
  }
  regions_.push_back(kept);
  return Listed(std::move(kept), session->regions(), {provider::RegionKind::kRegion, length, access, flags});
}

Result<std::shared_ptr<provider::MemoryWindow>> LocalAdapter::CreateMemoryWindow(WindowKind kind) {
  auto window =
      kind == WindowKind::kNetworkDirect ? device_->CreateWindow() : device_->CreateVerbsWindow(kind);
  if (!window.ok()) return window.status();
  return Listed(LeakInChild(std::move(window).value()), session->regions(),
                {provider::RegionKind::kWindow, 0, 0, 0});
}

Result<AppHandle<LocalCompletionQueue>> LocalAdapter::CreateCompletionQueue(std::uint32_t depth) {
  const std::uint32_t max = session->info().max_completion_queue_depth;
  if (Status range = CheckRange(StatusCode::kInvalidParameter1, "depth", depth, max, 1); !range.ok())
    return range;
  auto queue = device_->CreateCompletionQueue(depth);
  if (!queue.ok()) return queue.status();
  auto made = std::make_shared<LocalCompletionQueue>(shared_from_this(), std::move(queue).value());
  session->AddLive(made);
  return HandleOf(std::move(made));
}

Result<AppHandle<LocalSharedReceiveQueue>> LocalAdapter::CreateSharedReceiveQueue(std::uint32_t depth,
                                                                                  std::uint32_t max_sge) {
  const AdapterInfo& limits = session->info();
  Status range =
      CheckRange(StatusCode::kInvalidParameter1, "depth", depth, limits.max_shared_receive_queue_depth, 1);
  if (range.ok())
    range = CheckRange(StatusCode::kInvalidParameter2, "max_sge", max_sge, limits.max_receive_sge);
  if (!range.ok()) return range;
  auto queue = device_->CreateSharedReceiveQueue(depth, max_sge);
  if (!queue.ok()) return queue.status();
  auto made = std::make_shared<LocalSharedReceiveQueue>(shared_from_this(), std::move(queue).value());
  session->AddLive(made);
  return HandleOf(std::move(made));
}

Result<AppHandle<LocalQueuePair>> LocalAdapter::CreateQueuePair(const QueuePairArguments& arguments) {
  if (Status status = CheckArguments(arguments); !status.ok()) return status;

  Antecedents antecedents;
  const auto kept = [](auto* queue) {
    using Queue = std::remove_pointer_t<decltype(queue)>;
    return std::static_pointer_cast<Queue>(queue->shared_from_this());
  };
  const auto receive_cq = kept(arguments.receive_cq);
  const auto initiator_cq = kept(arguments.initiator_cq);
  std::shared_ptr<LocalSharedReceiveQueue> srq;
  if (arguments.shares_receive_queue) srq = kept(arguments.shared_receive_queue);
  if (!antecedents.Add(receive_cq->lifetime) || !antecedents.Add(initiator_cq->lifetime) ||
      (srq && !antecedents.Add(srq->lifetime))) {
    return InvalidHandle("a queue");
  }

  const BrokerSession::Life own = session->adapter();
  session::CreateQueuePairOp op{own.handle, arguments.receive_depth, arguments.initiator_depth, 0};

  provider::QpOptions inner;
  inner.receive_cq = receive_cq->real;
  inner.initiator_cq = initiator_cq->real;
  if (srq) inner.srq = srq->real;
  inner.context = arguments.context;
  inner.receive_depth = arguments.receive_depth;
  inner.initiator_depth = arguments.initiator_depth;
  inner.max_receive_sge = arguments.max_receive_sge;
  inner.max_initiator_sge = arguments.max_initiator_sge;
  inner.inline_size = arguments.inline_size;
  // The owner is known only after the broker has assigned a handle.
  const auto owner_of = std::make_shared<std::weak_ptr<LocalQueuePair>>();
  inner.on_peer_closed = [owner_of](DisconnectReason reason, Status cause) {
    if (auto queue_pair = owner_of->lock()) queue_pair->OnPeerClosed(reason, std::move(cause));
  };
  Result<std::shared_ptr<provider::QueuePair>> queue_pair(StatusCode::kUnsuccessful);
  const bool numbered = device_->numbered();
  if (numbered) {
    queue_pair = device_->CreateQueuePair(inner);
    if (!queue_pair.ok()) return queue_pair.status();
    op.device_number = (*queue_pair)->device_number();
  }
  auto made = std::make_shared<LocalQueuePair>(shared_from_this(), BrokerSession::Life{{}, own.epoch});
  const Result<std::uint32_t> counter_slot = made->MakeKnown(op);
  if (!counter_slot.ok()) return counter_slot.status();
  *owner_of = made;
  made->receive_depth = arguments.receive_depth;
  made->initiator_depth = arguments.initiator_depth;
  made->receive_cq = receive_cq;
  made->initiator_cq = initiator_cq;
  made->srq = srq;
  made->counters = session->counters();
  inner.counters = made->counters ? made->counters->Slot(*counter_slot) : nullptr;
  session->regions()->Use(made->counters);
  made->counted = inner.counters;
  if (!numbered) {
    queue_pair = device_->CreateQueuePair(inner);
  } else if (inner.counters != nullptr) {
    (*queue_pair)->UseCounters(inner.counters);
  }
  if (!queue_pair.ok()) {
    static_cast<void>(session->Submit(session::CloseOp{made->life().handle}, own.epoch, [](const Reply&) {}));
    return queue_pair.status();
  }
  made->real = LeakInChild(std::move(queue_pair).value());
  antecedents.Keep();
  session->AddLive(made);
  return HandleOf(std::move(made));
}

}  // namespace nd::client
