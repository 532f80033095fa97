// SPDX-License-Identifier: Apache-2.0
// Listeners and shared endpoints: both are names at the broker, closed when their last connector is.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>

#include "client-lib/src/adapter_impl.h"
#include "nd/connector.h"

namespace nd {
namespace client {

// Lives and dies with one epoch: nothing brings it back after the broker was away.
class Endpoint : public Target, public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(std::shared_ptr<Adapter::Impl> owner, Session::Life born)
      : adapter(std::move(owner)), life(born) {}

  Rank rank() const override { return Rank::kEndpoint; }
  void BeginClose() override { static_cast<void>(Close(nullptr, false)); }
  void LastHandleGone() { BeginClose(); }

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Result<Address> GetLocalAddress();
  Status Close(Request* request, bool wait);

  const std::shared_ptr<Adapter::Impl> adapter;
  const Session::Life life;

 protected:
  virtual void OnClosed() {}

 private:
  std::atomic<bool> closed_{false};
};

}  // namespace client

struct Listener::Impl final : client::Endpoint {
  using Endpoint::Endpoint;
  static std::shared_ptr<Impl> Make(std::shared_ptr<Adapter::Impl> adapter, client::Session::Life life);

  void OnConnectEvent(std::uint64_t connector, std::uint32_t epoch) override;
  Status NdkListen(const Address& local, std::function<void(Connector)> on_connect);
  Status Bind(const Address& local);
  Status GetConnectionRequest(const std::shared_ptr<Connector::Impl>& connector, Request* request);

 private:
  void OnClosed() override;
  // Where connections arrive; empty when that depends on the connection.
  Address local();

  std::mutex mutex_;
  Address local_;
  std::function<void(Connector)> on_connect_;
};

struct SharedEndpoint::Impl final : client::Endpoint {
  Impl(std::shared_ptr<Adapter::Impl> owner, client::Session::Life born, const Address& bound)
      : Endpoint(std::move(owner), born), local(bound) {}
  static std::shared_ptr<Impl> Make(std::shared_ptr<Adapter::Impl> adapter, client::Session::Life life,
                                    const Address& bound);

  const Address local;
};

}  // namespace nd
