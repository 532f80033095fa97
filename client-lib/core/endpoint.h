// SPDX-License-Identifier: Apache-2.0
// Listeners and shared endpoints. Both are objects of the broker and close when their last connector is
// closed.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "client-lib/core/adapter.h"

namespace nd::client {

// Its object at the broker ends with the broker and is made again at the next one, on the same address.
class LocalEndpoint : public Target, public std::enable_shared_from_this<LocalEndpoint> {
 public:
  LocalEndpoint(std::shared_ptr<LocalAdapter> owner, BrokerSession::Life born)
      : adapter(std::move(owner)), life_(born) {}

  Rank rank() const override { return Rank::kEndpoint; }
  void BeginClose() override { static_cast<void>(Close({}, false)); }
  void LastHandleGone() { BeginClose(); }

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Result<Address> GetLocalAddress();
  Status Close(const Caller& caller, bool wait = true);
  BrokerSession::Life life() const {
    std::lock_guard lock(life_mutex_);
    return life_;
  }

  const std::shared_ptr<LocalAdapter> adapter;

 protected:
  virtual void OnClosed() {}
  // Makes an operation for a handle.
  using Step = std::function<session::Operation(session::Handle)>;
  // Makes the object again: `steps[0]` on the adapter, the others on its result. If a step fails, the object
  // stays dead.
  void ComeBack(std::vector<Step> steps, std::function<void()> done);

 private:
  struct Return;
  void NextStep(const std::shared_ptr<Return>& back);
  void Adopt(const Return& back);

  std::atomic<bool> closed_{false};
  mutable std::mutex life_mutex_;
  BrokerSession::Life life_;
};

class LocalListener final : public LocalEndpoint {
 public:
  static constexpr char kWhat[] = "the listener";
  using OnConnect = std::function<void(AppHandle<LocalConnector>)>;

  using LocalEndpoint::LocalEndpoint;
  static std::shared_ptr<LocalListener> Make(std::shared_ptr<LocalAdapter> adapter, BrokerSession::Life life);

  void OnConnectEvent(session::Handle connector, std::uint32_t epoch) override;
  void OnSessionBack(const std::function<void()>& done) override;

  Status NdkListen(const Address& local, OnConnect on_connect);
  Status Bind(const Address& local);
  Status Listen(std::uint32_t backlog);
  Status ControlConnectEvents(bool pause);
  Status GetConnectionRequest(LocalConnector* connector, const Caller& caller);
  Status Cancel();

 private:
  void OnClosed() override;
  Status AwaitListening();
  // The address of its connections; empty when it depends on the connection.
  Address local();

  std::mutex mutex_;
  // The address for the next broker.
  Address local_;
  std::optional<std::uint32_t> backlog_;  // Listening.
  bool paused_ = false;
  OnConnect on_connect_;
};

class LocalSharedEndpoint final : public LocalEndpoint {
 public:
  static constexpr char kWhat[] = "the shared endpoint";

  LocalSharedEndpoint(std::shared_ptr<LocalAdapter> owner, BrokerSession::Life born, const Address& bound)
      : LocalEndpoint(std::move(owner), born), local(bound) {}
  static std::shared_ptr<LocalSharedEndpoint> Make(std::shared_ptr<LocalAdapter> adapter,
                                                   BrokerSession::Life life, const Address& bound);
  void OnSessionBack(const std::function<void()>& done) override;

  const Address local;
};

}  // namespace nd::client
