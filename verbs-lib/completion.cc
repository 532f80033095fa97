// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/completion.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <span>
#include <type_traits>

#include "verbs-lib/device.h"
#include "verbs-lib/export.h"
#include "verbs-lib/fault_guard.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/give_way.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/spin_thread.h"
#include "verbs-lib/wait.h"
#include "verbs-lib/work_completion.h"

namespace nd::verbs_lib {
namespace {

struct Channel {
  ibv_comp_channel abi{};
};

// A poll reads no more datagrams than this, so that the program can post receives in between.
constexpr int kDriveAtOnce = 16;

// The completions of one poll of the library. They have no values before that, which takes as long as the
// poll.
class Batch {
 public:
  static constexpr std::size_t kSize = 16;

  std::span<const Completion> Poll(nd::CompletionQueue& queue, std::size_t most) {
    auto* const first = reinterpret_cast<Completion*>(place_.data());
    return {first, queue.Poll(std::span(first, std::min(most, kSize)))};
  }

 private:
  static_assert(std::is_trivially_copyable_v<Completion>);
  alignas(Completion) std::array<std::byte, kSize * sizeof(Completion)> place_;
};

}  // namespace

template <typename Action>
void CompletionQueue::ForEachSource(Action action) {
  if (source_count_.load(std::memory_order_acquire) == 0) return;
  std::lock_guard lock(sources_mutex_);
  for (CompletionSource* source : sources_) action(*source);
}

void CompletionQueue::AddSource(CompletionSource* source) {
  std::lock_guard lock(sources_mutex_);
  sources_.push_back(source);
  source_count_.store(sources_.size(), std::memory_order_release);
  if (waits()) source->Watch();  // Armed before.
}

void CompletionQueue::RemoveSource(CompletionSource* source) {
  std::lock_guard lock(sources_mutex_);
  std::erase(sources_, source);
  source_count_.store(sources_.size(), std::memory_order_release);
}

int CompletionQueue::Poll(int count, ibv_wc* out) {
  int taken = 0;
  if (kept_count.load(std::memory_order_acquire) == 0) {
    ForEachSource([count](CompletionSource& source) { source.Drive(std::clamp(count, 1, kDriveAtOnce)); });
  }
  if (kept_count.load(std::memory_order_acquire) != 0) {
    std::lock_guard lock(mutex);
    while (taken < count && !kept.empty()) {
      out[taken++] = kept.front();
      kept.pop_front();
    }
    kept_count.store(kept.size(), std::memory_order_release);
  }
  Batch batch;
  while (taken < count) {
    const std::size_t wanted = std::min(Batch::kSize, static_cast<std::size_t>(count - taken));
    const auto done = batch.Poll(queue, wanted);
    for (const Completion& one : done) {
      if (ToWorkCompletion(one, &out[taken])) ++taken;
    }
    if (done.size() < wanted) break;
  }
  if (taken != 0) return taken;
  if (queue.state() == StatusCode::kBufferOverflow) {
    TellOverrun();
    return -1;
  }
  GiveWayToConnecting();
  return 0;
}

void CompletionQueue::TellOverrun() {
  if (overrun.exchange(true)) return;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_CQ_ERR;
  event.element.cq = reinterpret_cast<ibv_cq*>(this);
  FromAbi(abi.context)->Tell(event);
}

void CompletionQueue::TakeAll() {
  Batch batch;
  for (std::span<const Completion> done; !(done = batch.Poll(queue, Batch::kSize)).empty();) {
    for (const Completion& one : done) {
      ibv_wc completion;
      if (ToWorkCompletion(one, &completion)) kept.push_back(completion);
    }
  }
}

void CompletionQueue::Keep(const ibv_wc& completion, bool solicited) {
  std::lock_guard lock(mutex);
  TakeAll();
  kept.push_back(completion);
  kept_count.store(kept.size(), std::memory_order_release);
  FireFor(completion, solicited);
}

void CompletionQueue::FireFor(const ibv_wc& completion, bool solicited) {
  const bool wanted =
      armed_type.load() == NotifyType::kAny || solicited || completion.status != IBV_WC_SUCCESS;
  if (!kept_event || !armed.load() || !wanted) return;
  fired.store(true);
  eventfd_write(kept_event.get(), 1);
}

bool CompletionQueue::HasUnpolled(std::uint32_t number) {
  const MemoryAccess access;
  std::lock_guard lock(mutex);
  const std::size_t before = kept.size();
  TakeAll();
  kept_count.store(kept.size(), std::memory_order_release);
  // A program that sleeps may not have been woken for these. Whether they were solicited is not known any
  // more.
  if (kept.size() != before) FireFor(kept.back(), true);
  return std::any_of(kept.begin(), kept.end(), [number](const ibv_wc& one) {
    return one.qp_num == number && one.status == IBV_WC_SUCCESS;
  });
}

void CompletionQueue::Purge(std::uint32_t reset) {
  std::lock_guard lock(mutex);
  TakeAll();
  std::erase_if(kept,
                [reset](const ibv_wc& one) { return one.qp_num == reset || !NumberExists(one.qp_num); });
  kept_count.store(kept.size(), std::memory_order_release);
}

Status CompletionQueue::Arm(NotifyType type) {
  const Status status = ArmQueue(type);
  ForEachSource([](CompletionSource& source) { source.Watch(); });
  return status;
}

Status CompletionQueue::ArmQueue(NotifyType type) {
  std::lock_guard lock(mutex);
  // The event is for the next completion. Notify() would fire at once for completions that wait already, so
  // they are taken out and kept.
  TakeAll();
  kept_count.store(kept.size(), std::memory_order_release);
  // An event for every completion is one for solicited completions, too.
  if (!armed.load() || type == NotifyType::kAny) armed_type.store(type);
  if (!armed.exchange(true)) fired.store(false);
  return queue.Notify(type);
}

int PollCq(ibv_cq* queue, int count, ibv_wc* out) {
  if (InForkedChild()) return -1;
  const MemoryAccess access;
  return FromAbi(queue)->Poll(count, out);
}

int ReqNotifyCq(ibv_cq* abi, int solicited_only) {
  return ErrnoOf(FromAbi(abi)->Arm(solicited_only != 0 ? NotifyType::kSolicited : NotifyType::kAny));
}

namespace {

// Puts the queue into the epoll set of its channel.
bool AddToChannel(CompletionQueue* queue, ibv_comp_channel* channel) {
  queue->kept_event = UniqueFd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = queue;
  return queue->kept_event && epoll_ctl(channel->fd, EPOLL_CTL_ADD, queue->queue.handle(), &event) == 0 &&
         epoll_ctl(channel->fd, EPOLL_CTL_ADD, queue->kept_event.get(), &event) == 0;
}

CompletionQueue* Create(ibv_context* context, std::uint32_t depth, void* cq_context,
                        ibv_comp_channel* channel, std::uint32_t vector) {
  if (RefuseInForkedChild()) return nullptr;
  if (depth == 0 || vector >= static_cast<std::uint32_t>(context->num_comp_vectors)) return FailWith(EINVAL);
  Adapter* adapter = FromAbi(context)->device->adapter();
  if (adapter == nullptr) return nullptr;
  auto made = adapter->CreateCompletionQueue(depth);
  if (!made.ok()) return FailWith(ErrnoOf(made.status()));
  auto* queue = new CompletionQueue;
  queue->queue = std::move(made).value();
  queue->abi.context = context;
  queue->abi.channel = channel;
  queue->abi.cq_context = cq_context;
  queue->abi.cqe = static_cast<int>(depth);
  pthread_mutex_init(&queue->abi.mutex, nullptr);
  pthread_cond_init(&queue->abi.cond, nullptr);
  if (channel != nullptr && !AddToChannel(queue, channel)) {
    delete queue;
    return FailWith(ENOMEM);
  }
  if (channel != nullptr) ++channel->refcnt;
  SpinOn(&queue->queue);
  return queue;
}

int StartPoll(ibv_cq_ex* abi, ibv_poll_cq_attr* attributes) {
  if (attributes->comp_mask != 0) return EINVAL;
  if (InForkedChild()) return ENODEV;
  const MemoryAccess access;
  CompletionQueue* queue = FromAbi(abi);
  const int got = queue->Poll(1, &queue->current);
  if (got != 1) return got == 0 ? ENOENT : EIO;
  abi->wr_id = queue->current.wr_id;
  abi->status = queue->current.status;
  return 0;
}

int NextPoll(ibv_cq_ex* abi) {
  ibv_poll_cq_attr none{};
  return StartPoll(abi, &none);
}

void EndPoll(ibv_cq_ex*) {}

template <auto Member>
auto ReadField(ibv_cq_ex* abi) {
  return FromAbi(abi)->current.*Member;
}

unsigned ReadFlags(ibv_cq_ex* abi) {
  return FromAbi(abi)->current.wc_flags;
}

}  // namespace

ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* wanted) {
  constexpr std::uint64_t kOffered = std::uint64_t{IBV_WC_STANDARD_FLAGS} | IBV_WC_EX_WITH_SLID |
                                     IBV_WC_EX_WITH_SL | IBV_WC_EX_WITH_DLID_PATH_BITS;
  if ((wanted->wc_flags & ~kOffered) != 0 ||
      (wanted->comp_mask & ~std::uint32_t{IBV_CQ_INIT_ATTR_MASK_FLAGS}) != 0) {
    return FailWith(EOPNOTSUPP);
  }
  CompletionQueue* queue =
      Create(context, wanted->cqe, wanted->cq_context, wanted->channel, wanted->comp_vector);
  if (queue == nullptr) return nullptr;
  queue->extended = true;
  ibv_cq_ex& abi = queue->abi;
  abi.start_poll = StartPoll;
  abi.next_poll = NextPoll;
  abi.end_poll = EndPoll;
  abi.read_opcode = ReadField<&ibv_wc::opcode>;
  abi.read_vendor_err = ReadField<&ibv_wc::vendor_err>;
  abi.read_byte_len = ReadField<&ibv_wc::byte_len>;
  abi.read_imm_data = ReadField<&ibv_wc::imm_data>;
  abi.read_qp_num = ReadField<&ibv_wc::qp_num>;
  abi.read_src_qp = ReadField<&ibv_wc::src_qp>;
  abi.read_wc_flags = ReadFlags;
  abi.read_slid = [](ibv_cq_ex*) -> std::uint32_t { return 0; };
  abi.read_sl = ReadField<&ibv_wc::sl>;
  abi.read_dlid_path_bits = [](ibv_cq_ex*) -> std::uint8_t { return 0; };
  return &abi;
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::Channel;
using nd::verbs_lib::CompletionQueue;
using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;
using nd::verbs_lib::StopSpinningOn;

NDBROKER_PUBLIC ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  const int fd = epoll_create1(EPOLL_CLOEXEC);
  if (fd < 0) return nullptr;
  auto* channel = new Channel;
  channel->abi.context = context;
  channel->abi.fd = fd;
  return &channel->abi;
}

NDBROKER_PUBLIC int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  if (channel->refcnt != 0) return EBUSY;
  close(channel->fd);
  delete reinterpret_cast<Channel*>(channel);
  return 0;
}

NDBROKER_PUBLIC ibv_cq* ibv_create_cq(ibv_context* context, int depth, void* cq_context,
                                      ibv_comp_channel* channel, int vector) {
  if (depth <= 0 || vector < 0) return FailWith(EINVAL);
  return reinterpret_cast<ibv_cq*>(nd::verbs_lib::Create(
      context, static_cast<std::uint32_t>(depth), cq_context, channel, static_cast<std::uint32_t>(vector)));
}

NDBROKER_PUBLIC int ibv_resize_cq(ibv_cq* abi, int depth) {
  if (depth <= 0 || FromAbi(abi)->kept_count.load() > static_cast<std::size_t>(depth)) return EINVAL;
  const nd::Status status = FromAbi(abi)->queue.Resize(static_cast<std::uint32_t>(depth));
  if (status.ok()) abi->cqe = depth;
  return nd::verbs_lib::ErrnoOf(status);
}

NDBROKER_PUBLIC int ibv_destroy_cq(ibv_cq* abi) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  CompletionQueue* queue = FromAbi(abi);
  if (queue->holds.any()) return EBUSY;
  StopSpinningOn(&queue->queue);
  if (abi->channel != nullptr) {
    epoll_ctl(abi->channel->fd, EPOLL_CTL_DEL, queue->queue.handle(), nullptr);
    epoll_ctl(abi->channel->fd, EPOLL_CTL_DEL, queue->kept_event.get(), nullptr);
  }
  // Completes when no queue pair uses it, so the program must have destroyed those.
  nd::Request closing;
  const nd::Status status = queue->queue.Close(&closing);
  if (!status.ok() && !status.pending()) return nd::verbs_lib::ErrnoOf(status);
  {
    std::unique_lock lock(queue->mutex);
    queue->acknowledged.wait(lock, [queue] { return queue->events_acknowledged >= queue->events_taken; });
  }
  FromAbi(abi->context)->Forget(abi);
  if (abi->channel != nullptr) --abi->channel->refcnt;
  pthread_mutex_destroy(&queue->abi.mutex);
  pthread_cond_destroy(&queue->abi.cond);
  delete queue;
  return 0;
}

NDBROKER_PUBLIC int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** out, void** cq_context) {
  if (nd::verbs_lib::RefuseInForkedChild()) return -1;
  for (;;) {
    epoll_event event{};
    const int ready = epoll_wait(channel->fd, &event, 1, 0);
    if (ready < 0) return -1;
    if (ready == 0) {
      if (nd::verbs_lib::WaitReadable(channel->fd) != 0) return -1;
      continue;
    }
    auto* queue = static_cast<CompletionQueue*>(event.data.ptr);
    const bool first = queue->armed.exchange(false);
    const bool fired = queue->queue.ConsumeNotification();
    eventfd_t count;
    const bool kept = eventfd_read(queue->kept_event.get(), &count) == 0;
    if (!first) continue;   // Another thread took the event.
    if (!fired && !kept) {  // There was other work, and the event is still to come.
      queue->armed.store(true);
      continue;
    }
    {
      std::lock_guard lock(queue->mutex);
      ++queue->events_taken;
    }
    *out = reinterpret_cast<ibv_cq*>(queue);
    *cq_context = queue->abi.cq_context;
    return 0;
  }
}

NDBROKER_PUBLIC void ibv_ack_cq_events(ibv_cq* abi, unsigned count) {
  if (nd::verbs_lib::InForkedChild()) return;
  CompletionQueue* queue = FromAbi(abi);
  std::lock_guard lock(queue->mutex);
  queue->events_acknowledged += count;
  queue->acknowledged.notify_all();
}
