// SPDX-License-Identifier: Apache-2.0
// A queue pair: the half of the provider, its handle at the broker, and the connection that uses it.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/lifetime.h"
#include "client-lib/src/queue_impl.h"
#include "nd/connector.h"
#include "nd/queue_pair.h"

namespace nd {

struct QueuePair::Impl final : client::Target, std::enable_shared_from_this<Impl> {
  Impl(std::shared_ptr<Adapter::Impl> owner, client::Session::Life born);
  ~Impl() override;

  Rank rank() const override { return Rank::kQueuePair; }
  void BeginClose() override { static_cast<void>(Close(nullptr, false, false)); }
  void LastHandleGone() { BeginClose(); }
  // Makes it known to the new broker, and then its connection.
  void OnSessionBack(const std::function<void()>& done) override;

  bool usable() const { return !closed.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Status Close(Request* request, bool ndk, bool wait);
  // Sets its connection; null: none.
  void SetConnector(const std::shared_ptr<Connector::Impl>& connector);
  std::shared_ptr<Connector::Impl> connector();
  client::Session::Life life();
  // Called by the provider, on any thread.
  void OnPeerClosed(DisconnectReason reason, Status cause);
  // The peer has disconnected: flushes all requests before the return and lets the answer to the disconnect
  // leave.
  void Part();

  const std::shared_ptr<Adapter::Impl> adapter;
  QueuePairOptions options;  // Its pointers are not kept.
  std::shared_ptr<CompletionQueue::Impl> receive_cq, initiator_cq;
  std::shared_ptr<SharedReceiveQueue::Impl> srq;
  std::shared_ptr<client::CountersPages> counters;  // Keeps the provider's counters mapped.
  provider::QpCounters* counted = nullptr;          // In `counters`; null: those of the provider.
  std::shared_ptr<provider::QueuePair> real;
  std::atomic<bool> closed{false};
  client::Lifetime users;  // The connection; an NDK close waits for it while the broker is away.

 private:
  void ReleaseQueues();
  // Copies counts from the page of the old broker to that of the new one.
  void CarryCounters(std::uint32_t slot);
  void Drop();

  std::atomic<bool> peer_left_{false};
  std::mutex mutex_;
  client::Session::Life life_;
  std::weak_ptr<Connector::Impl> connector_;
};

}  // namespace nd
