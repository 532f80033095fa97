// SPDX-License-Identifier: Apache-2.0
// A connection's local half. The broker keeps the state machine; here is only what must work when it is away,
// and what ties the connection to its queue pair.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "client-lib/src/adapter_impl.h"
#include "client-lib/src/queue_pair_impl.h"
#include "nd/connector.h"

namespace nd {

struct Connector::Impl final : client::Target, std::enable_shared_from_this<Impl> {
  using Life = client::Session::Life;

  // Registers it with the session.
  static std::shared_ptr<Impl> Make(std::shared_ptr<Adapter::Impl> adapter, Life life, bool passive);
  Impl(std::shared_ptr<Adapter::Impl> owner, Life life, bool passive);

  Rank rank() const override { return Rank::kConnector; }
  void BeginClose() override { static_cast<void>(Close(nullptr, false)); }
  void LastHandleGone() { BeginClose(); }
  void OnDisconnectEvent(DisconnectReason reason) override;
  void OnTransportCommand(const client::TransportCommand& command) override;
  void OnAdapterGone() override;

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Life life();

  Status Connect(QueuePair& queue_pair, client::Op op, const Address& remote, const ConnectOptions& options,
                 Request* request);
  Status CompleteConnect(Request* request);
  Status Accept(QueuePair& queue_pair, const ConnectOptions& options, Request* request);
  Status Reject(PrivateData private_data);
  // An operation that only names the connector.
  Status Simple(client::OpKind kind, Request* request, client::Session::Then then = {});
  Result<client::Reply> Ask(client::OpKind kind);
  Status NotifyDisconnect(Request* request);
  Status Disconnect(Request* request);
  Status Cancel();
  Status Close(Request* request, bool wait);

  void SetCallback(std::function<void(DisconnectReason)> callback);
  DisconnectReason reason();
  void SetAddresses(const Address* local, const Address* remote);
  void MakePassive();

  // From the queue pair, on any thread: the peer's goodbye or the loss of the transport.
  void OnPeerClosed(DisconnectReason reason, Status cause);
  // The queue pair was closed under the connection.
  void OnQueuePairClosed();
  // The broker hears of the peer's goodbye before it hears anything that this side does about it.
  void TellPeerClosed();
  // The queue pair has a name at the new broker; tells it of the connection that lives on it.
  void Reattach(Life queue_pair, const std::function<void()>& done);

  const std::shared_ptr<Adapter::Impl> adapter;

 private:
  enum class Phase { kSettingUp, kEstablished, kPeerClosed, kDisconnecting, kDead };
  using State = std::shared_ptr<Request::State>;

  Status CheckQueuePair(const QueuePair& queue_pair, std::shared_ptr<QueuePair::Impl>* out);
  static Status CheckData(PrivateData data);
  // With the completion that names the hand-over: the queue pair is connected before anyone hears of it.
  Status Establish(const std::shared_ptr<QueuePair::Impl>& queue_pair, client::Reply& reply);
  void Report(client::ReportWhat what, DisconnectReason reason, Status status);
  void SendReport(client::ReportWhat what, DisconnectReason reason, Status status);
  Status DisconnectLocally(Request* request);
  // Of an established connection, when the broker died over an asynchronous Disconnect.
  void GoodbyeWithoutBroker();
  void TellPeerClosedInOrder();  // `telling_` is held.
  // A Disconnect failed; if it counted, it counts no more.
  void NotLeaving(bool& first_word);
  // NotifyDisconnect and Disconnect need nobody else. `mutex_` is held.
  bool AnswersHere() const;
  // Ends this side of a connection whose peer has left.
  void Leave(const std::shared_ptr<QueuePair::Impl>& used);
  // The peer left, by the broker's word.
  void HeardPeerClosed();
  void FlushOnGoodbye();
  // The queue pair lives in a device.
  bool OnDevice();
  // The broker's attributes for the queue pair that is being connected.
  void Prepare(const std::vector<std::uint8_t>& attributes);
  // The transport is over on this side too.
  void Finished();
  void CompleteLocalNotifies(const Status& status);
  void FireCallback(DisconnectReason reason);
  void OnClosed();

  // Held while the messages go out whose order matters. Before mutex_.
  std::mutex telling_;
  std::mutex mutex_;
  Life life_;
  bool passive_;
  Phase phase_ = Phase::kSettingUp;
  bool untold_ = false;  // The peer's goodbye, to the broker, with what the transport saw of it.
  Status cause_;
  int leaving_ = 0;       // Disconnects made before the peer's goodbye was known, and not refused.
  bool removed_ = false;  // With the adapter: the broker answers for it.
  std::shared_ptr<QueuePair::Impl> queue_pair_;
  std::shared_ptr<QueuePair::Impl> accepting_;  // While Accept runs: what a Prepare is for.
  bool holds_queue_pair_ = false;
  Address local_, remote_;
  ReadLimits limits_;
  bool flush_on_goodbye_ = false;  // Compatibility, on devices.
  DisconnectReason reason_ = DisconnectReason::kUnknown;
  std::function<void(DisconnectReason)> callback_;
  std::vector<State> notifies_;  // NotifyDisconnects made while the broker was away.
  std::atomic<bool> closed_{false};
};

}  // namespace nd
