// SPDX-License-Identifier: Apache-2.0
// A queue pair: the half of the provider, its handle at the broker, and the connection that uses it. Posts go
// to `real` directly.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "client-lib/core/adapter.h"
#include "client-lib/core/lifetime.h"
#include "client-lib/core/queues.h"

namespace nd::client {

class LocalQueuePair final : public Target, public std::enable_shared_from_this<LocalQueuePair> {
 public:
  static constexpr char kWhat[] = "the queue pair";

  LocalQueuePair(std::shared_ptr<LocalAdapter> owner, BrokerSession::Life born);
  ~LocalQueuePair() override;

  Rank rank() const override { return Rank::kQueuePair; }
  void BeginClose() override { static_cast<void>(Close({}, false, false)); }
  void LastHandleGone() { BeginClose(); }
  // Makes a new one known to the broker. Returns its counter slot, or the broker's refusal. The answer is
  // waited for unless the session has a spare.
  Result<std::uint32_t> MakeKnown(session::CreateQueuePairOp op);
  // Makes it and its connection known to the new broker.
  void OnSessionBack(const std::function<void()>& done) override;

  bool usable() const { return !closed.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Status Close(const Caller& caller, bool ndk, bool wait = true);
  // Sets its connection; null: none.
  void SetConnector(const std::shared_ptr<LocalConnector>& connector);
  std::shared_ptr<LocalConnector> connector();
  BrokerSession::Life life();
  // Called by the provider, on any thread.
  void OnPeerClosed(DisconnectReason reason, Status cause);
  // The peer has disconnected: flushes all requests before the return and lets the answer to the disconnect
  // leave.
  void Part();

  const std::shared_ptr<LocalAdapter> adapter;
  std::uint32_t receive_depth = 0, initiator_depth = 0;
  std::shared_ptr<LocalCompletionQueue> receive_cq, initiator_cq;
  std::shared_ptr<LocalSharedReceiveQueue> srq;
  std::shared_ptr<MappedCounters> counters;  // Keeps the provider's counters mapped.
  provider::QpCounters* counted = nullptr;   // In `counters`; null: those of the provider.
  std::shared_ptr<provider::QueuePair> real;
  std::atomic<bool> closed{false};
  Lifetime users;  // The connection; an NDK close waits for it while the broker is away.

 private:
  void ReleaseQueues();
  // Makes it known without its connection, and then its connection, if `with_connection`.
  void ComeBack(bool with_connection, const std::function<void()>& done);
  // The new broker has made it: takes its handle and counters. Returns false when it was closed meanwhile.
  bool CameBack(BrokerSession::Life life, std::uint32_t slot);
  // Copies counts from the page of the old broker to that of the new one.
  void CarryCounters(std::uint32_t slot);
  void Drop();

  std::atomic<bool> peer_left_{false};
  std::mutex mutex_;
  BrokerSession::Life life_;
  std::weak_ptr<LocalConnector> connector_;
};

}  // namespace nd::client
