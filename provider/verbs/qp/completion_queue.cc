// SPDX-License-Identifier: Apache-2.0
// The queue of a device neither knows contexts nor signals completions that it holds already.
#include "provider/verbs/qp/completion_queue.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/device_limits.h"
#include "provider/verbs/qp/queue_pair.h"

namespace nd::provider::verbs {
namespace {

constexpr int kBatch = 16;
// Entries beyond those requested, for silent requests that are signalled to free queue entries.
constexpr std::uint32_t kSpareEntries = 16;
// How many empty polls pass between two looks at the events of the device (an overrun, a fatal error).
constexpr std::uint32_t kEmptyPollsBetweenLooks = 4096;
// Of two waiting threads, one may take the event of the other. No thread sleeps longer than this.
constexpr Duration kLongestSleep = std::chrono::milliseconds(100);

}  // namespace

Result<std::shared_ptr<CompletionQueue>> VerbsCompletionQueue::Create(const std::shared_ptr<Context>& context,
                                                                      std::uint32_t depth) {
  const std::uint32_t most = context->info.max_completion_queue_depth;
  if (depth == 0 || depth > most) {
    return Status{StatusCode::kInvalidParameter1, "the depth is 0 or above max_completion_queue_depth"};
  }
  std::shared_ptr<VerbsCompletionQueue> queue(new VerbsCompletionQueue(context));
  errno = 0;
  queue->depth_ = depth;
  queue->channel_ = ibv_create_comp_channel(context->device);
  const std::uint32_t entries = most - depth < kSpareEntries ? most : depth + kSpareEntries;
  if (queue->channel_ != nullptr) {
    queue->cq_ = ibv_create_cq(context->device, static_cast<int>(entries), queue.get(), queue->channel_, 0);
  }
  if (queue->cq_ == nullptr) return OpenFailure(context->info.name, errno);
  queue->fired_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  queue->epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  const int flags = ::fcntl(queue->channel_->fd, F_GETFL);
  epoll_event readable{};
  readable.events = EPOLLIN;
  if (!queue->fired_ || !queue->epoll_ || flags < 0 ||
      ::fcntl(queue->channel_->fd, F_SETFL, flags | O_NONBLOCK) != 0 ||
      ::epoll_ctl(queue->epoll_.get(), EPOLL_CTL_ADD, queue->channel_->fd, &readable) != 0 ||
      ::epoll_ctl(queue->epoll_.get(), EPOLL_CTL_ADD, queue->fired_.get(), &readable) != 0) {
    return Status{StatusCode::kInsufficientResources, "no descriptors for the completion queue",
                  Detail::kNone, errno};
  }
  return std::shared_ptr<CompletionQueue>(queue);
}

VerbsCompletionQueue::~VerbsCompletionQueue() {
  if (context_->forked()) return;
  if (cq_ != nullptr) {
    DrainChannel();  // ibv_destroy_cq waits for every event to be acknowledged.
    context_->DrainAsyncEvents();
    ibv_destroy_cq(cq_);
  }
  if (channel_ != nullptr) ibv_destroy_comp_channel(channel_);
}

void VerbsCompletionQueue::Attach(std::uint32_t number, VerbsQueuePair* queue_pair) {
  std::lock_guard guard(lock_);
  queue_pairs_[number] = queue_pair;
}

void VerbsCompletionQueue::Detach(std::uint32_t number) {
  std::lock_guard guard(lock_);
  queue_pairs_.erase(number);
}

std::size_t VerbsCompletionQueue::PollDevice(Completion* out, std::size_t room, bool* more,
                                             std::vector<PeerLoss>* losses) {
  ibv_wc wc[kBatch];
  const int asked = static_cast<int>(std::min<std::size_t>(room, kBatch));
  const int n = ibv_poll_cq(cq_, asked, wc);
  if (n < 0) MarkLost();
  *more = n == asked;  // Fewer than asked means that the queue is empty; another poll would cost time at
                       // every message.
  std::size_t filled = 0;
  for (int i = 0; i < n; ++i) {
    // An unknown number belonged to a queue pair that has been destroyed.
    const auto found = queue_pairs_.find(wc[i].qp_num);
    if (found == queue_pairs_.end()) continue;
    bool lost = false;
    if (found->second->OnCompletion(wc[i], &out[filled], &lost)) ++filled;
    if (lost) losses->push_back({found->second->weak_from_this(), wc[i].status});
  }
  return filled;
}

std::size_t VerbsCompletionQueue::Poll(std::span<Completion> out) {
  if (out.empty() || context_->forked()) return 0;
  std::vector<PeerLoss> losses;
  std::size_t filled = 0;
  bool look = false;
  {
    std::lock_guard guard(lock_);
    while (filled < out.size() && !ready_.empty()) {
      out[filled++] = ready_.front();
      ready_.pop_front();
    }
    for (bool more = true; more && filled < out.size();) {
      filled += PollDevice(out.data() + filled, out.size() - filled, &more, &losses);
    }
    if (filled == 0 && ++empty_polls_ >= kEmptyPollsBetweenLooks) {
      empty_polls_ = 0;
      look = true;
    }
  }
  Tell(losses);
  if (look) context_->DrainAsyncEvents();
  return filled;
}

bool VerbsCompletionQueue::CollectLocked(std::vector<PeerLoss>* losses) {
  Completion batch[kBatch];
  for (bool more = true; more;) {
    const std::size_t n = PollDevice(batch, kBatch, &more, losses);
    ready_.insert(ready_.end(), batch, batch + n);
  }
  return !ready_.empty();
}

void VerbsCompletionQueue::Collect() {
  std::vector<PeerLoss> losses;
  {
    std::lock_guard guard(lock_);
    CollectLocked(&losses);
    if (armed_ && !ready_.empty()) Fire();
  }
  Tell(losses);
}

void VerbsCompletionQueue::Push(const Completion& completion) {
  std::lock_guard guard(lock_);
  ready_.push_back(completion);
  if (armed_) Fire();
}

void VerbsCompletionQueue::Tell(const std::vector<PeerLoss>& losses) {
  for (const PeerLoss& loss : losses) {
    if (const auto queue_pair = loss.queue_pair.lock()) queue_pair->TellPeerClosed(loss.status);
  }
}

void VerbsCompletionQueue::Fire() {
  const std::uint64_t one = 1;
  static_cast<void>(!::write(fired_.get(), &one, sizeof one));
}

void VerbsCompletionQueue::DrainChannel() {
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (ibv_get_cq_event(channel_, &cq, &context) == 0) ++events;
  if (events > 0) ibv_ack_cq_events(cq_, events);
}

Status VerbsCompletionQueue::Notify(NotifyType type) {
  if (context_->forked()) return InParent();
  std::vector<PeerLoss> losses;
  {
    std::lock_guard guard(lock_);
    const auto rank = [](NotifyType t) {
      return t == NotifyType::kAny ? 2 : t == NotifyType::kSolicited ? 1 : 0;
    };
    if (!armed_ || rank(type) > rank(armed_type_)) armed_type_ = type;
    armed_ = true;
    if (const int error = ibv_req_notify_cq(cq_, armed_type_ == NotifyType::kAny ? 0 : 1); error != 0) {
      return {StatusCode::kInternalError, std::string("the device cannot be armed: ") + std::strerror(error),
              Detail::kNone, error};
    }
    if (armed_type_ == NotifyType::kAny && CollectLocked(&losses)) Fire();
  }
  Tell(losses);
  return {};
}

bool VerbsCompletionQueue::ConsumeNotification() {
  if (context_->forked()) return false;
  {
    std::lock_guard guard(lock_);
    DrainChannel();
    std::uint64_t count = 0;
    static_cast<void>(!::read(fired_.get(), &count, sizeof count));
    armed_ = false;
  }
  context_->DrainAsyncEvents();
  return true;
}

Status VerbsCompletionQueue::Wait(Time deadline) {
  if (context_->forked()) return InParent();
  for (;;) {
    std::vector<PeerLoss> losses;
    bool some = false;
    {
      std::lock_guard guard(lock_);
      some = CollectLocked(&losses);
      if (!some) {
        if (const int error = ibv_req_notify_cq(cq_, 0); error != 0) {
          return {StatusCode::kInternalError, "the device cannot be armed", Detail::kNone, error};
        }
        some = CollectLocked(&losses);
      }
    }
    Tell(losses);
    if (some) return {};
    if (lost_.load(std::memory_order_relaxed)) return state();
    const Time now = std::chrono::steady_clock::now();
    if (now >= deadline) return {StatusCode::kIoTimeout, "nothing completed in time"};
    const Duration sleep = std::min<Duration>(deadline - now, kLongestSleep);
    pollfd waiting{channel_->fd, POLLIN, 0};
    const timespec timeout{static_cast<time_t>(sleep.count() / 1000000000),
                           static_cast<long>(sleep.count() % 1000000000)};
    if (::ppoll(&waiting, 1, &timeout, nullptr) > 0) {
      std::lock_guard guard(lock_);
      DrainChannel();
      if (armed_) Fire();  // The application had armed the queue too.
    } else {
      context_->DrainAsyncEvents();
    }
  }
}

Status VerbsCompletionQueue::Resize(std::uint32_t depth) {
  if (context_->forked()) return InParent();
  const std::uint32_t most = context_->info.max_completion_queue_depth;
  if (depth == 0 || depth > most) {
    return {StatusCode::kInvalidParameter, "the depth is 0 or above max_completion_queue_depth"};
  }
  const std::uint32_t entries = most - depth < kSpareEntries ? most : depth + kSpareEntries;
  std::lock_guard guard(lock_);
  const int error = ibv_resize_cq(cq_, static_cast<int>(entries));
  if (error == 0) {
    depth_ = depth;
    return {};
  }
  if (error == EOPNOTSUPP || error == ENOSYS) {
    return {StatusCode::kNotSupported, context_->info.name + " cannot resize a completion queue",
            Detail::kNone, error};
  }
  return {StatusCode::kInsufficientResources,
          std::string("the queue keeps its depth: ") + std::strerror(error), Detail::kNone, error};
}

Status VerbsCompletionQueue::state() const {
  if (!context_->forked()) context_->DrainAsyncEvents();
  if (!lost_.load(std::memory_order_relaxed)) return {};
  return {StatusCode::kBufferOverflow, "more completions arrived than fit; the queue is lost"};
}

}  // namespace nd::provider::verbs
