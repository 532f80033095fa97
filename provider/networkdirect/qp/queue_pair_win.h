// SPDX-License-Identifier: Apache-2.0
// A queue pair of an adapter of Network Direct.
//
//   kIdle       receives may be posted
//   kConnected  after Attach(): requests may be posted
//   kEnded      this side has disconnected or dropped the connection
//
// Thread rule: as provider/qp.h.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "provider/networkdirect/qp/completion_queue_win.h"
#include "provider/networkdirect/qp/context_win.h"
#include "provider/networkdirect/qp/memory_win.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

class NdQueuePair final : public QueuePair,
                          public ConnectionUser,
                          public std::enable_shared_from_this<NdQueuePair> {
 public:
  static Result<std::shared_ptr<QueuePair>> Make(const std::shared_ptr<Context>& context,
                                                 const QpOptions& options);
  NdQueuePair(std::shared_ptr<Context> context, const QpOptions& options);
  ~NdQueuePair() override;

  std::uint32_t device_number() const override { return number_; }
  void UseCounters(QpCounters* counters) override;
  Status Attach(HandOff hand_off) override;
  Status Receive(void* request_context, std::span<const Sge> sges) override;
  Status Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) override;
  Status Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
               std::uint32_t remote_token, std::uint32_t flags) override;
  Status Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
              std::uint32_t remote_token, std::uint32_t flags) override;
  Status BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                    std::size_t length, std::uint32_t flags) override;
  Status Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) override;
  Status Flush() override;
  void Disconnect(Duration timeout, std::function<void(Status)> done) override;
  void Drop() override;

  void OnPeerGone() override;

 private:
  enum class State { kIdle, kConnected, kEnded };
  Status Build(const QpOptions& options);
  // The checks before a post; *length: the bytes.
  Status Check(RequestType type, std::span<const Sge> sges, std::uint32_t flags, std::uint32_t* length) const;
  Status CheckState(RequestType type) const;
  void Count(std::atomic<std::uint64_t> QpCounters::*counter, std::uint32_t bytes);

  const std::shared_ptr<Context> context_;
  const std::shared_ptr<NdCompletionQueue> receive_cq_, initiator_cq_;
  const std::shared_ptr<NdSharedReceiveQueue> srq_;
  void* const user_context_;
  const std::uint32_t max_receive_sge_, max_initiator_sge_, inline_size_;
  std::uint32_t number_ = 0;       // By which the daemon half names it.
  std::uint32_t completions_ = 0;  // By which completions name it.
  Com<spi::IND2QueuePair> pair_;
  QpCounters own_counters_;
  QpCounters* counters_ = &own_counters_;
  std::atomic<State> state_{State::kIdle};
  std::atomic<std::uint32_t> read_outbound_{0};
  bool flush_on_goodbye_ = false;  // Set before the state is kConnected.
  std::mutex mutex_;
  std::function<void(DisconnectReason, Status)> on_peer_closed_;
};

}  // namespace nd::provider::networkdirect
