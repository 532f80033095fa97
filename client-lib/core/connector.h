// SPDX-License-Identifier: Apache-2.0
// The local half of a connection. The broker has the state machine. This class has the parts that must work
// without the broker, and the link to the queue pair.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "client-lib/core/adapter.h"
#include "client-lib/core/queue_pair.h"

namespace nd::client {

class LocalSharedEndpoint;

// The arguments of Connect and Accept that the peer sees.
struct ConnectArguments {
  ReadLimits limits;
  std::span<const std::byte> private_data;
};

class LocalConnector final : public Target, public std::enable_shared_from_this<LocalConnector> {
 public:
  using Life = BrokerSession::Life;
  using ReportWhat = session::TransportReportOp::What;
  static constexpr char kWhat[] = "the connector";

  // Makes the connector and registers it with the session.
  static std::shared_ptr<LocalConnector> Make(std::shared_ptr<LocalAdapter> adapter, Life life, bool passive);
  // Makes it from a spare of the session, without waiting for the broker. DEVICE_REMOVED.
  static Result<std::shared_ptr<LocalConnector>> MakeAhead(std::shared_ptr<LocalAdapter> adapter, Life opened,
                                                           std::uint32_t spare);
  LocalConnector(std::shared_ptr<LocalAdapter> owner, Life life, bool passive);

  Rank rank() const override { return Rank::kConnector; }
  void BeginClose() override { static_cast<void>(Close({}, false)); }
  void LastHandleGone() { BeginClose(); }
  void OnDisconnectEvent(DisconnectReason reason) override;
  void OnTransportCommand(const session::TransportCommand& command) override;
  void OnAdapterGone() override;

  bool usable() const { return !closed_.load(std::memory_order_relaxed) && !adapter->session->in_child(); }
  Life life();

  // --- calls of the application ---------------------------------------------------------------------------
  Status Bind(const Address& local);
  Status Connect(LocalQueuePair* queue_pair, const Address& remote, const ConnectArguments& arguments,
                 const Caller& caller);
  Status ConnectFrom(LocalQueuePair* queue_pair, const Address& source, const Address& remote,
                     const ConnectArguments& arguments, const Caller& caller);
  Status ConnectFrom(LocalQueuePair* queue_pair, LocalSharedEndpoint* endpoint, const Address& remote,
                     const ConnectArguments& arguments, const Caller& caller);
  Status CompleteConnect(const Caller& caller);
  Status Accept(LocalQueuePair* queue_pair, const ConnectArguments& arguments, const Caller& caller);
  Status Reject(std::span<const std::byte> private_data);
  Result<ReadLimits> GetReadLimits();
  Result<session::Bytes> GetPrivateData();
  Result<Address> GetLocalAddress();
  Result<Address> GetPeerAddress();
  Status NotifyDisconnect(const Caller& caller);
  void SetDisconnectCallback(std::function<void(DisconnectReason)> callback);
  DisconnectReason reason();
  Status Disconnect(const Caller& caller);
  Status Cancel();
  Status Close(const Caller& caller, bool wait = true);

  // --- calls of other objects of the core -----------------------------------------------------------------
  // A listener has delivered a request to this connector.
  void BecomePassive(const Address& local, Reply& request);
  // Called by the queue pair, on any thread: the peer disconnected or the transport was lost.
  void OnPeerClosed(DisconnectReason reason, Status cause);
  // The queue pair was closed under the connection.
  void OnQueuePairClosed();
  // Reports the disconnect of the peer to the broker before any reaction of this side.
  void TellPeerClosed();
  // The operation that re-attaches this connection to a new broker, without the queue pair. Empty when it
  // cannot come back.
  std::optional<session::ReattachOp> ReturningConnection();
  // The queue pair has a handle at the new broker; re-attaches its connection.
  void Reattach(Life queue_pair, const std::function<void()>& done);
  // The new broker, of that epoch, has answered Reattach with SUCCESS.
  void CameBack(const Reply& reply, std::uint32_t epoch);

  const std::shared_ptr<LocalAdapter> adapter;

 private:
  enum class Phase { kSettingUp, kEstablished, kPeerClosed, kDisconnecting, kDead };

  // Submits an operation whose only argument is the connector.
  template <typename Op>
  Status Simple(const Caller& caller, BrokerSession::Then then = {}) {
    const Life at = life();
    return adapter->session->Perform(Op{at.handle}, at.epoch, caller, std::move(then));
  }
  template <typename Op>
  Result<Reply> Ask() {
    const Life at = life();
    return adapter->session->Call(Op{at.handle}, at.epoch);
  }
  // The private data and limits of the peer, which come with the completion of Connect and of
  // GetConnectionRequest. They answer the getters until the next operation or event of the connector; from
  // then on the broker answers, which knows the state.
  struct Arrived {
    session::Bytes data;
    ReadLimits limits;
  };
  std::optional<Arrived> Unchanged();
  void Changes();  // An operation begins.

  Status Connect(LocalQueuePair* queue_pair, session::ConnectOp op, const Address& remote,
                 const ConnectArguments& arguments, const Caller& caller);
  Status CheckQueuePair(LocalQueuePair* queue_pair) const;
  static Status CheckData(std::span<const std::byte> data);
  // Null: unchanged.
  void SetAddresses(const Address* local, const Address* remote);
  // Handles the completion with the hand-over: connects the queue pair before the completion is delivered.
  Status Establish(const std::shared_ptr<LocalQueuePair>& queue_pair, Reply& reply);
  void Report(ReportWhat what, DisconnectReason reason, Status status);
  // kAtOnce returns false when the report was not sent, because it would have to wait or the broker is away.
  bool SendReport(ReportWhat what, DisconnectReason reason, Status status, BrokerSession::Sender sender);
  // The goodbye of this side: the queue pair says it, and the broker is told when it is over. BeginGoodbye
  // returns the queue pair of an established connection, for RunGoodbye, or null. From then on the disconnect
  // of the peer is the answer to this one.
  std::shared_ptr<LocalQueuePair> BeginGoodbye();
  void RunGoodbye(const std::shared_ptr<LocalQueuePair>& used);
  void GoodbyeOver(Status status);
  // Calls `then` with the queue pair's answer, at once when it is there already.
  void AfterGoodbye(std::function<void(Status)> then);
  // Ends the transport at once, by order of the broker.
  void Drop(DisconnectReason reason);
  bool TellPeerClosedInOrder(BrokerSession::Sender sender);  // Requires report_order_. As SendReport().
  // Disconnect when the broker says the goodbye or decides the result of the call.
  Status DisconnectByBroker(const Caller& caller);
  Status DisconnectLocally(const Caller& caller);
  // A Disconnect failed; if it counts in leaving_, it is subtracted.
  void NotLeaving(bool& counts_as_leaving);
  // True when NotifyDisconnect and Disconnect can be answered without the broker. Requires mutex_.
  bool AnswersHere() const;
  // Ends this side of a connection whose peer disconnected.
  void Leave(const std::shared_ptr<LocalQueuePair>& used);
  // The broker reported the disconnect of the peer.
  void OnPeerClosedByBroker();
  void FlushOnGoodbye();
  // True when the queue pair lives in a device.
  bool OnDevice();
  // Applies the attributes from the broker to the queue pair that is being connected.
  void Prepare(const std::vector<std::uint8_t>& attributes);
  // The transport has ended on this side too.
  void Finished();
  void CompleteLocalNotifies(const Status& status);
  void FireCallback(DisconnectReason reason);
  void OnClosed();

  // Held while messages are sent whose order matters. Locked before mutex_.
  std::mutex report_order_;
  std::mutex mutex_;
  Life life_;
  bool passive_;
  Phase phase_ = Phase::kSettingUp;
  bool peer_close_unreported_ = false;  // The disconnect of the peer is not reported to the broker yet.
  Status cause_;
  // Disconnects of a device submitted before that of the peer was known, and not refused.
  int leaving_ = 0;
  bool removed_ = false;  // Removed with the adapter: the broker answers operations.
  std::shared_ptr<LocalQueuePair> queue_pair_;
  std::shared_ptr<LocalQueuePair> accepting_;  // The queue pair of a pending Accept, for Prepare.
  bool holds_queue_pair_ = false;
  Address local_, remote_;
  std::optional<Arrived> arrived_;
  ReadLimits limits_;
  session::Bytes proof_;           // Of the hand-over, for Reattach.
  Duration disconnect_timeout_{};  // Of the hand-over.
  std::optional<Status> goodbye_;  // The answer of the queue pair to its Disconnect.
  std::vector<std::function<void(Status)>> after_goodbye_;
  bool flush_on_goodbye_ = false;  // Compatibility, where the queue pair does not see the goodbye.
  DisconnectReason reason_ = DisconnectReason::kUnknown;
  std::function<void(DisconnectReason)> callback_;
  std::vector<std::shared_ptr<CallState>>
      notifies_;  // NotifyDisconnects submitted while the broker was away.
  std::atomic<bool> closed_{false};
};

}  // namespace nd::client
