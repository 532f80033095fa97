// SPDX-License-Identifier: Apache-2.0
// Queue pairs and shared receive queues.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "nd/nd.h"
#include "verbs-lib/by_number.h"
#include "verbs-lib/completion.h"
#include "verbs-lib/datagram_pair.h"
#include "verbs-lib/qp_ex.h"
#include "verbs-lib/receive_ring.h"

namespace nd::verbs_lib {

// Set in the destination number of a queue pair that rdma_cm connects. Its transport arrives with the
// connection, not with the change to RTR.
inline constexpr std::uint32_t kConnectedByCm = 0x800000;

struct SharedReceiveQueue {
  // The first queue pair decides who takes the receives: the library, or UD queue pairs. Receives that were
  // posted before are in `own`.
  enum class Use : std::uint8_t { kUndecided, kConnected, kDatagrams };

  SharedReceiveQueue(std::uint32_t wanted_depth, std::uint32_t wanted_sge)
      : depth(wanted_depth), max_sge(wanted_sge), own(wanted_depth, wanted_sge) {}

  int Post(const ibv_recv_wr& request);
  // Called for each queue pair that is created with this queue. EINVAL: the other kind uses it.
  int UseFor(Use wanted);
  // Calls `fill` with the receives of UD queue pairs.
  bool TakeForDatagram(const std::function<bool(ReceiveRing&)>& fill);
  // One event when fewer than `wanted` receives are left; 0: none. 0 or an errno.
  int SetLimit(std::uint32_t wanted);

  // Called when the limit is reached, maybe while the queue is being destroyed.
  struct Alarm {
    std::mutex mutex;
    SharedReceiveQueue* queue = nullptr;  // Under `mutex`. Null: destroyed.
    void Ring();
  };

  ibv_srq abi{};
  nd::SharedReceiveQueue queue;
  Holds holds;
  Hold domain;
  const std::uint32_t depth, max_sge;
  const std::shared_ptr<Alarm> alarm = std::make_shared<Alarm>();
  std::atomic<std::uint32_t> limit{0};  // Armed.

  std::mutex mutex;
  std::atomic<Use> use{Use::kUndecided};  // Written under `mutex`.
  ReceiveRing own;                        // Under `mutex`.

 private:
  Status ArmLibrary();
};

// Programs hold a pointer to `abi`, as ibv_qp or as ibv_qp_ex.
struct QueuePair {
  ibv_qp_ex abi{};
  ibv_qp_init_attr init{};
  ibv_qp_attr attributes{};  // The attributes that the program set by ibv_modify_qp.
  // The program set qp_access_flags. A program on an RNIC does not; then everything is allowed.
  bool has_rights = false;
  CompletionQueue* send_cq = nullptr;
  CompletionQueue* receive_cq = nullptr;
  std::vector<Hold> needs;  // Until the program has destroyed it; this object may live longer.

  std::shared_ptr<ByNumber> by_number;  // Null: connected by rdma_cm only, as on an RNIC.

  std::mutex mutex;  // Guards `real`, `sender` and `sender_by_number` against their replacement.

  std::mutex changes_mutex;  // One ibv_modify_qp at a time, as the kernel does for devices.

  ibv_qp& base() { return abi.qp_base; }
  // Any thread: the library moves a queue pair, too.
  ibv_qp_state state() { return __atomic_load_n(&base().state, __ATOMIC_RELAXED); }
  // A copy of `real` or of `sender`, for the connection manager.
  nd::QueuePair pair(bool of_sends = false);
  // Opens a fresh queue pair of the library under the same number.
  Status Renew();
  // Requests of the send queue go through a second queue pair of the library, with a connection of its own,
  // until DropSecond().
  Status SendThrough(std::shared_ptr<ByNumber> second);
  void DropSecond();
  bool has_second() { return pair(true).impl() != pair().impl(); }
  // Ends the connection by number, or the attempt.
  void LeavePeer();
  void SetState(ibv_qp_state state);
  // Applies the domains of the program, and the rights that `now` gives to the peer.
  Status Protect(const ibv_qp_attr& now, bool has_rights);
  // The connection manager has attached the transport.
  void OnEstablished();
  // Moves to ERR. Called by the connection manager when the connection has ended and devices of this kind
  // flush.
  void Flush();
  // The same after a request has failed. The other requests are flushed by another thread, because the caller
  // holds the locks of a completion queue.
  void FailSoon();
  // Reports an asynchronous event of the queue pair.
  void Tell(ibv_event_type type);
  // The queue pair is being destroyed. Blocks until the program has acknowledged its events.
  void EndEvents();
  // Takes the completion of a request that failed because the peer by number is gone; returns false when it
  // failed for another reason. A device notices such an end only when its own request is not answered: that
  // request fails after the time of its retries, and the others and the receives are flushed.
  bool KeepsBack(const ibv_wc& failed);
  // True when requests have succeeded of which the program does not know yet.
  bool HasUnpolled();
  // Drops the completions that were kept back, and does not use the completion queues for them any more.
  void ForgetKeptBack();

  // Both are empty in a UD queue pair.
  nd::QueuePair real;
  // Takes the requests of the send queue. It is `real`, unless the queue pair is connected with itself: then
  // `real` is the other end, with the receives (to_itself.h).
  nd::QueuePair sender;
  std::shared_ptr<ByNumber> sender_by_number;  // The connection of `sender`.
  std::unique_ptr<DatagramPair> datagrams;     // Of a UD queue pair.
  std::unique_ptr<ExtendedPosts> extended;     // Of a queue pair with ibv_wr_*.

 private:
  Result<nd::QueuePair> Open();
  void FlushAll(nd::QueuePair receives, nd::QueuePair sends);
  void ReportKeptBack();
  void FailAfterRetries(std::uint32_t loss);

  std::mutex events_mutex_;
  bool events_ended_ = false;
  std::mutex report_mutex_;  // Held while completions go to the queues of the program.
  std::mutex kept_mutex_;
  std::vector<ibv_wc> kept_sends_, kept_receives_;
  std::uint32_t loss_ = 0;  // Counts, so that a late timer finds its own.
};

inline QueuePair* FromAbi(ibv_qp* queue_pair) {
  return reinterpret_cast<QueuePair*>(queue_pair);
}
inline SharedReceiveQueue* FromAbi(ibv_srq* queue) {
  return reinterpret_cast<SharedReceiveQueue*>(queue);
}

// A list of ibv_sge is used as a list of Sge, without a copy.
static_assert(sizeof(ibv_sge) == sizeof(Sge) && offsetof(ibv_sge, addr) == offsetof(Sge, address) &&
              offsetof(ibv_sge, length) == offsetof(Sge, length) &&
              offsetof(ibv_sge, lkey) == offsetof(Sge, local_token) &&
              sizeof(void*) == sizeof(std::uint64_t));

inline std::span<const Sge> SgesOf(std::span<const ibv_sge> pieces) {
  return {reinterpret_cast<const Sge*>(pieces.data()), pieces.size()};
}

inline void* ContextOf(std::uint64_t id) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(id));
}

// One request of ibv_post_send or ibv_bind_mw.
int PostSendOf(QueuePair* queue_pair, const ibv_send_wr& request);
int PostSend(ibv_qp* queue_pair, ibv_send_wr* first, ibv_send_wr** bad);
int PostReceive(ibv_qp* queue_pair, ibv_recv_wr* first, ibv_recv_wr** bad);
int PostSrqReceive(ibv_srq* queue, ibv_recv_wr* first, ibv_recv_wr** bad);
ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* wanted);
ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* wanted);

}  // namespace nd::verbs_lib
