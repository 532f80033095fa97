// SPDX-License-Identifier: Apache-2.0
// A reliable connected queue pair of the device.
//
//   Idle       INIT: receives may be posted
//   Prepared   RTS by Prepare(); on iWARP the kernel makes this transition
//   Connected  after Attach(): requests may be posted
//   Closed     ERR: every outstanding request has completed with CANCELED
//
// Flush returns a queue pair that was never connected to Idle, if the device can do that.
//
// Thread rule: as provider/qp.h. OnCompletion runs under the lock of the completion queue that calls it.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "provider/qp.h"
#include "provider/verbs/qp/completion_queue.h"
#include "provider/verbs/qp/context.h"
#include "provider/verbs/qp/memory.h"
#include "provider/verbs/qp/request_ring.h"
#include "provider/verbs/qp/srq.h"

namespace nd::provider::verbs {

// A checked list of local memory, in the device's form.
struct SgeList {
  static constexpr std::uint32_t kMost = 16;
  // DATA_OVERRUN: too many elements. BUFFER_OVERFLOW: too many bytes.
  Status Fill(std::span<const Sge> from, std::uint32_t max_sge, std::uint32_t max_bytes);

  ibv_sge sges[kMost];
  int count = 0;
  std::uint32_t length = 0;
};

class VerbsQueuePair final : public QueuePair, public std::enable_shared_from_this<VerbsQueuePair> {
 public:
  static Result<std::shared_ptr<QueuePair>> Create(const std::shared_ptr<Context>& context,
                                                   const QpOptions& options);
  ~VerbsQueuePair() override;

  std::uint32_t device_number() const override { return number_; }
  bool sees_goodbye() const override { return false; }
  void UseCounters(QpCounters* counters) override { counters_ = counters; }
  Status Prepare(std::span<const std::uint8_t> attributes) override;
  Status Attach(HandOff hand_off) override;
  Status Receive(void* request_context, std::span<const Sge> sges) override;
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) override;
  Status SendAndInvalidate(void* request_context, std::span<const Sge> sges, std::uint32_t flags,
                           std::uint32_t remote_token) override;
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags) override;
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags) override;
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags) override;
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) override;
  // May wait for a slow device, at most a second.
  Status Flush() override;
  void Disconnect(Duration timeout, std::function<void(Status)> done) override;
  void Drop() override;

  // Called by completion queues. Returns true when `out` is to be delivered. *lost: the connection failed and
  // this side did not end it.
  bool OnCompletion(const ibv_wc& wc, Completion* out, bool* lost);
  void TellPeerClosed(ibv_wc_status status);

 private:
  enum class State { kIdle, kPrepared, kConnected, kClosed };

  VerbsQueuePair(std::shared_ptr<Context> context, const QpOptions& options);
  Status Build(const QpOptions& options);
  Status Create(ibv_qp_init_attr attr);
  bool OwnerIsRecorded() const;
  Status ToInit();
  Status CheckPostable(RequestType type);
  int Modify(ibv_qp_attr attr, int mask) { return ibv_modify_qp(qp_, &attr, mask); }
  Status Post(ibv_send_wr* request, RequestType type, void* context, std::uint32_t length,
              std::uint32_t flags, std::shared_ptr<VerbsWindow> window);
  Status PostData(ibv_wr_opcode opcode, RequestType type, void* context, std::span<const Sge> sges,
                  std::uint32_t flags, std::uint32_t max_sge, ibv_send_wr* request);
  // Moves the queue pair to ERR and completes every outstanding request.
  void CancelAll();
  void Collect();
  void CancelRest(RequestRing* ring, VerbsCompletionQueue* queue);
  void ForgetWindows();

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<VerbsCompletionQueue> receive_cq_, initiator_cq_;
  const std::shared_ptr<VerbsSharedReceiveQueue> srq_;
  void* const user_context_;
  const std::uint32_t max_receive_sge_, max_initiator_sge_, inline_size_;
  const std::uint32_t generation_;
  ibv_qp* qp_ = nullptr;
  std::uint32_t number_ = 0;
  QpCounters own_counters_;
  QpCounters* counters_;
  RequestRing receives_, initiator_;
  std::uint32_t signal_every_ = 1,
                since_signal_ =
                    0;  // Every signal_every_-th silent request is signalled, to free queue entries.

  std::atomic<State> state_{State::kIdle};
  std::atomic<bool> ending_{
      false};  // This side ended the connection, so failed requests say nothing about the peer.
  std::atomic<std::uint32_t> read_outbound_{0};
  std::mutex mutex_;  // State changes, windows, callback.
  UniqueFd pin_;      // Keeps the connection alive in the kernel when the broker ends.
  std::function<void(DisconnectReason, Status)> on_peer_closed_;
  std::vector<std::weak_ptr<VerbsWindow>> windows_;
};

}  // namespace nd::provider::verbs
