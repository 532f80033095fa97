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

#include "client-lib/src/adapter_impl.h"
#include "nd/connector.h"

namespace nd {
namespace client {

// Its object at the broker ends with the broker and is made again at the next one, on the same address.
class Endpoint : public Target, public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(std::shared_ptr<Adapter::Impl> owner, Session::Life born)
      : adapter(std::move(owner)), life_(born) {}

  Rank rank() const override { return Rank::kEndpoint; }
  void BeginClose() override { static_cast<void>(Close(nullptr, false)); }
  void LastHandleGone() { BeginClose(); }

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Result<Address> GetLocalAddress();
  Status Close(Request* request, bool wait);
  Session::Life life() const {
    std::lock_guard lock(life_mutex_);
    return life_;
  }

  const std::shared_ptr<Adapter::Impl> adapter;

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
  Session::Life life_;
};

}  // namespace client

struct Listener::Impl final : client::Endpoint {
  using Endpoint::Endpoint;
  static std::shared_ptr<Impl> Make(std::shared_ptr<Adapter::Impl> adapter, client::Session::Life life);

  void OnConnectEvent(session::Handle connector, std::uint32_t epoch) override;
  Status NdkListen(const Address& local, std::function<void(Connector)> on_connect);
  void OnSessionBack(const std::function<void()>& done) override;
  Status Bind(const Address& local);
  Status Listen(std::uint32_t backlog);
  Status ControlConnectEvents(bool pause);
  Status GetConnectionRequest(const std::shared_ptr<Connector::Impl>& connector, Request* request);

 private:
  void OnClosed() override;
  // The address of its connections; empty when it depends on the connection.
  Address local();

  std::mutex mutex_;
  // The address for the next broker.
  Address local_;
  std::optional<std::uint32_t> backlog_;  // Listening.
  bool paused_ = false;
  std::function<void(Connector)> on_connect_;
};

struct SharedEndpoint::Impl final : client::Endpoint {
  Impl(std::shared_ptr<Adapter::Impl> owner, client::Session::Life born, const Address& bound)
      : Endpoint(std::move(owner), born), local(bound) {}
  static std::shared_ptr<Impl> Make(std::shared_ptr<Adapter::Impl> adapter, client::Session::Life life,
                                    const Address& bound);
  void OnSessionBack(const std::function<void()>& done) override;

  const Address local;
};

}  // namespace nd
