// SPDX-License-Identifier: Apache-2.0
// Completion queues and completion channels.
//
// The descriptor of a channel is an epoll set of the handles of its queues: a program may poll it, and no
// thread is needed to pass an event on.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"
#include "nd/nd.h"
#include "verbs-lib/holds.h"

namespace nd::verbs_lib {

// Makes completions that no queue pair of the library makes.
class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  // Called when the program polls: adds completions by Keep(), for up to `most` messages.
  virtual void Drive(int most) = 0;
  // Called when the program waits for an event: from now on adds completions without Drive().
  virtual void Watch() = 0;
};

// Programs hold a pointer to `abi`, as ibv_cq or as ibv_cq_ex.
struct CompletionQueue {
  ibv_cq_ex abi{};
  nd::CompletionQueue queue;
  bool extended = false;
  Holds holds;

  // Completions that leave before those of `queue`: made here (requests posted in the error state), or taken
  // out of `queue` when a queue pair was destroyed.
  std::mutex mutex;
  std::deque<ibv_wc> kept;
  std::atomic<std::size_t> kept_count{0};

  // Events of the channel. `armed` is true from ibv_req_notify_cq until the event is taken.
  std::atomic<bool> armed{false};
  std::atomic<NotifyType> armed_type{NotifyType::kAny};
  std::atomic<bool> fired{false};  // `kept_event` was written since.
  UniqueFd kept_event;             // Readable while armed and a completion was kept.
  std::condition_variable acknowledged;
  std::uint32_t events_taken = 0, events_acknowledged = 0;  // Under `mutex`.

  std::atomic<bool> overrun{false};  // The program was told.

  // The result of the start_poll in progress (ibv_cq_ex).
  ibv_wc current{};

  int Poll(int count, ibv_wc* out);
  // Adds a completion behind all that arrived before it.
  void Keep(const ibv_wc& completion, bool solicited = false);
  // True when a request of the queue pair `number` has succeeded, and the program has not polled that yet.
  bool HasUnpolled(std::uint32_t number);
  // True when the program waits for an event that Keep() has not caused yet.
  bool waits() const { return armed.load() && !fired.load(); }
  // Returns true when as many completions wait as the program requested room for.
  bool full() const { return kept_count.load() >= static_cast<std::size_t>(abi.cqe); }
  void AddSource(CompletionSource* source);
  // Returns when the source is not in use.
  void RemoveSource(CompletionSource* source);
  // Makes the channel readable at the next completion of that kind; those that wait already do not count.
  Status Arm(NotifyType type);
  // Removes the completions of destroyed queue pairs, and those of the queue pair with the number `reset`
  // from before its reset.
  void Purge(std::uint32_t reset = 0);

 private:
  void TakeAll();                                          // Under `mutex`.
  void FireFor(const ibv_wc& completion, bool solicited);  // Under `mutex`.
  void TellOverrun();
  Status ArmQueue(NotifyType type);
  template <typename Action>
  void ForEachSource(Action action);

  std::mutex sources_mutex_;  // Taken before the lock of a source.
  std::vector<CompletionSource*> sources_;
  std::atomic<std::size_t> source_count_{0};
};

inline CompletionQueue* FromAbi(ibv_cq* queue) {
  return reinterpret_cast<CompletionQueue*>(queue);
}
inline CompletionQueue* FromAbi(ibv_cq_ex* queue) {
  return reinterpret_cast<CompletionQueue*>(queue);
}

int PollCq(ibv_cq* queue, int count, ibv_wc* out);
int ReqNotifyCq(ibv_cq* queue, int solicited_only);
ibv_cq_ex* CreateCqEx(ibv_context* context, ibv_cq_init_attr_ex* wanted);

}  // namespace nd::verbs_lib
