// SPDX-License-Identifier: Apache-2.0
// The broker's tables and the acting functions over them, by subject in broker_*.cc.
//
// Rules inside: a function that may free objects says so; after calling it, objects are looked up again.
// Every Pending ends through Finish(). Iteration only over ordered containers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "daemon/core/broker.h"
#include "daemon/core/connector_table.h"
#include "daemon/core/objects.h"
#include "daemon/core/slot_table.h"

namespace nd::core {

class Broker::Impl {
 public:
  explicit Impl(Options options);

  void Step(Time now, const Event& event, Actions* actions);
  std::optional<Time> NextDeadline() const;

  std::vector<AdapterRow> Adapters() const;
  std::vector<ListenerRow> Listeners() const;
  std::vector<ConnectionRow> Connections() const;
  std::vector<QueuePairRow> QueuePairs() const;
  std::vector<EndpointRow> Endpoints() const;
  std::vector<PortRow> Ports() const;
  std::vector<SessionRow> Sessions() const;
  Counters counters() const;
  std::optional<Time> OldestPending() const;
  std::string CheckInvariants() const;
  bool draining() const { return draining_; }
  const Policy& policy() const { return policy_; }
  Quota::Usage UsageOf(std::uint32_t uid) const;
  std::optional<Identity> OwnerOf(SessionId session) const;
  Status CheckReserve(const Address& local) const;
  Status CheckRelease(const Address& local) const;

 private:
  // Hard bounds that protect the broker itself; quotas are the administrator's.
  static constexpr std::size_t kMaxPendingOps = 262144;
  static constexpr std::uint32_t kMaxOpenAdapters = 1024;

  enum class TimerKind : std::uint8_t { kPace, kEstablish, kGoodbye, kGrace };
  struct Timer {
    Handle connector;  // None of kGrace.
    TimerKind kind;
  };
  // What a CmId means at the moment: a connector, or a request in a listener's queue.
  struct CmEntry {
    Handle connector;
    Handle listener;
    std::uint64_t key = 0;
    Time arrived{};
  };

  // ---- events (broker.cc, broker_sessions.cc, broker_admin.cc, broker_wire.cc)
  void On(const SessionOpened& event);
  void On(const SessionClosed& event);
  void On(const ClientOp& event);
  void On(const CmReserved& event);
  void On(const CmRequested& event);
  void On(const CmReached& event);
  void On(const CmReplied& event);
  void On(const CmRejected& event);
  void On(const CmFailed& event);
  void On(const CmPrepare& event);
  void On(const CmEstablished& event);
  void On(const CmLost& event);
  void On(const CmPeerClosed& event);
  void On(const CmDisconnected& event);
  void On(const AdaptersChanged& event);
  void NoteProblem(AdapterState* adapter);
  void On(const Tick& event);
  void On(const SetAdapter& event);
  void On(const KillConnection& event);
  void On(const KillSession& event);
  void On(const PauseListener& event);
  void On(const SettingsChanged& event);
  void On(const SetDraining& event);
  void On(const ReservePort& event);
  void On(const ReleasePort& event);
  void On(const Stopping& event);

  // ---- operations
  void Do(Session& s, Pending p, const ListAdaptersOp& op);
  void Do(Session& s, Pending p, const OpenAdapterOp& op);
  void Do(Session& s, Pending p, const ResolveAddressOp& op);
  void Do(Session& s, Pending p, const CheckAddressOp& op);
  void Do(Session& s, Pending p, const CreateQueuePairOp& op);
  void Do(Session& s, Pending p, const CreateConnectorOp& op);
  void Do(Session& s, Pending p, const CreateListenerOp& op);
  void Do(Session& s, Pending p, const CreateSharedEndpointOp& op);
  void Do(Session& s, Pending p, const CloseOp& op);
  void Do(Session& s, Pending p, const BindOp& op);
  void Do(Session& s, Pending p, const ConnectOp& op);
  void Do(Session& s, Pending p, const CompleteConnectOp& op);
  void Do(Session& s, Pending p, const AcceptOp& op);
  void Do(Session& s, Pending p, const RejectOp& op);
  void Do(Session& s, Pending p, const GetReadLimitsOp& op);
  void Do(Session& s, Pending p, const GetPrivateDataOp& op);
  void Do(Session& s, Pending p, const GetLocalAddressOp& op);
  void Do(Session& s, Pending p, const GetPeerAddressOp& op);
  void Do(Session& s, Pending p, const NotifyDisconnectOp& op);
  void Do(Session& s, Pending p, const DisconnectOp& op);
  void Do(Session& s, Pending p, const CancelOp& op);
  void Do(Session& s, Pending p, const ListenOp& op);
  void Do(Session& s, Pending p, const ControlConnectEventsOp& op);
  void Do(Session& s, Pending p, const GetConnectionRequestOp& op);
  void Do(Session& s, Pending p, const TransportReportOp& op);
  void Do(Session& s, Pending p, const ReattachOp& op);

  // ---- sessions, completions (broker_sessions.cc)
  Session& SessionOf(SessionId id);
  Session* FindSession(SessionId id);
  // Completes `pending` (empty: nothing to do) and empties it.
  void Finish(SessionId session, Pending& pending, Status status, Reply reply = {});
  void EndSessionNow(Session& s, Status why);

  // ---- objects (broker_objects.cc)
  Object* FindAny(Handle handle);
  // The client's view: live, its own, of that kind, not closing.
  template <typename T>
  T* FindOwn(const Session& s, Handle handle);
  template <typename T>
  T* Find(Handle handle);
  Connector& ConnectorAt(Handle handle);
  template <typename T>
  T* Create(Session& s, const OpenedAdapter& adapter, Status* why);
  // Forgets the object and tells those that wait for it: frees it and maybe its antecedents.
  void Destroy(Object& object);
  // Finishes a pending Close of an object without successors: may free it.
  void MaybeFinishClose(Handle handle);
  void DropSuccessor(Handle antecedent);
  std::optional<Quota::Token> Charge(const Session& s, Resource resource, Status* why);
  AdapterState& StateOf(const Object& object) { return adapters_[object.adapter_no]; }
  const AdapterState& StateOf(const Object& object) const { return adapters_[object.adapter_no]; }
  // The adapter's handle for making something; finishes `p` with the reason and returns null otherwise.
  OpenedAdapter* UsableAdapter(Session& s, Pending& p, Handle handle);

  // ---- ports (broker_bind.cc)
  // Takes `local` (port 0: chooses) for `claim`; on SUCCESS *taken is the address with its port.
  Status TakePort(const Session& s, const Object& object, PortClaim& claim, const Address& local,
                  PortKind kind, Address* taken);
  void DropPort(PortClaim& claim);
  // Asks the provider for the host port when it must; true when the answer has to be awaited.
  bool Reserve(const Object& object, PortClaim& claim);
  // The port is granted or not: the pending operation goes on.
  void Reserved(Connector& c, Status status);
  void Reserved(Listener& l, Status status);
  void Reserved(SharedEndpoint& e, Status status);
  bool NextCandidate(const Object& object, PortClaim& claim, PortKind kind, Address* local, Status* status);
  Status CheckPrivileged(const Session& s, const Address& local) const;

  // ---- ports of an earlier life (broker_lease.cc)
  void HoldLeases(const std::vector<Lease>& leases, Time until);
  // Its hold is let go at once, or put into `replaced`.
  void DropLease(const PortKey& key, std::vector<EndpointId>* replaced = nullptr);
  // Those in the way of `key` whose holders have ended since.
  void DropDeadLeases(const PortKey& key);
  void EndGrace();
  static Process ProcessOf(const Session& s) { return {s.who.uid, s.who.pid, s.who.born}; }

  // ---- what a session sees of an adapter (broker_objects.cc)
  // CheckLocalAddress() for this session: in another network namespace an adapter has no address at all.
  Status CheckLocal(const Session& s, const AdapterInfo& adapter, const Address& local,
                    bool allow_unspecified) const;
  static AdapterInfo SeenBy(const Session& s, const AdapterInfo& adapter);

  // ---- connecting (broker_connect.cc)
  ConnectorFlags FlagsOf(const Connector& c) const;
  StatusCode VerdictOf(ConnectorOp op, const Connector& c) const;
  // CONNECTION_ACTIVE: in use; INVALID_DEVICE_STATE: was connected before.
  Status CheckQueuePair(const QueuePair& q);
  Status ConnectLocal(Session& s, Connector& c, const ConnectOp& op, SharedEndpoint* endpoint);
  void Launch(Connector& c);  // Out on the wire, or into the queue.
  void SendConnect(Connector& c);
  void LaunchQueued();
  void ReleaseFlight(Connector& c);
  void LeaveQueue(Connector& c);
  // Connect failed: back to Bound or Unbound when retryable, else Dead. May free a closing endpoint.
  void FailConnect(Connector& c, Status status);
  void ReleaseTuple(Connector& c);
  void DetachQueuePair(Connector& c);
  void ForgetCm(Connector& c, bool abort);
  // Withdraws an attempt that is not established and makes the connector Dead. Does not finish operations.
  // `ending` is for the record, if its end has not been told before.
  void Kill(Connector& c, Ending ending);
  void Arm(Connector& c, TimerKind kind, Time when);
  void Disarm(TimerKey& key);
  void ArmEstablish(Connector& c);
  void Expire(Connector& c);
  void BecomeConnected(Connector& c);
  void Lost(Connector& c, const Status& status, const Bytes& private_data);

  // ---- accepting (broker_accept.cc)
  void Deliver(Connector& c, Listener& l, provider::InboundRequest request);
  void RefuseInbound(const provider::InboundRequest& request, Listener* l, Detail detail);
  void DeliverEvent(Session& s, Listener& l, const provider::InboundRequest& request);
  // The listener that is to have the request, or why not.
  Listener* ListenerFor(AdapterNo adapter, const provider::InboundRequest& request, Detail* why);
  TupleKey TupleOf(const Connector& c) const { return {c.adapter_no, c.local, c.remote}; }

  // ---- listening (broker_listen.cc)
  void StartListening(Listener& l);
  void StopListening(Listener& l, Detail detail, const Status& gets);
  void CancelGets(Listener& l, const Status& status);
  void SetPaused(Listener& l, bool paused);

  // ---- disconnecting (broker_disconnect.cc)
  void FinishNotifies(Connector& c, const Status& status);
  void StartGoodbye(Connector& c);
  void FinishGoodbye(Connector& c, Status status);  // May free it.
  // `seen`: by the application's transport, or SUCCESS.
  void PeerClosed(Connector& c, DisconnectReason reason, const Status& seen = {});
  // After the connector became Dead: goes on with a Close (its own or its queue pair's) that waited for it.
  void AfterDead(Connector& c);

  // ---- closing (broker_close.cc)
  // Every outstanding operation, in order of submission; a Waiting connector leaves its listener.
  void CancelAll(Connector& c, const Status& status);
  void Cancel(Connector& c);
  void Cancel(Listener& l);
  void DestroyConnector(Connector& c, Ending ending);
  void Close(Connector& c);
  void Close(Listener& l);
  void Close(SharedEndpoint& e);
  void Close(OpenedAdapter& a);
  void Close(QueuePair& q, bool ndk);
  void Reclaim(Object& object);  // Of a dead session: at once, without asking the client.

  // ---- records (broker_record.cc)
  // `began`: when the request was made or arrived.
  void BeginAttempt(Connector& c, Time began);
  void RecordEstablished(Connector& c);
  // Nothing when the end was told before, or nothing had begun.
  void RecordEnd(Connector& c, Ending ending);
  ConnectionRecord RecordOf(const Connector& c);
  // What the transport said, as far as this broker knows it to be true.
  Ending EndingOf(const Connector& c, DisconnectReason reason, const Status& seen) const;
  static Ending EndingOf(const Session& s, const Connector& c);
  // The established connection's other end, when this broker has it, too.
  Connector* OtherEndOf(const Connector& c);
  void TellOtherEnd(const Connector& c, const Ending& ending);

  // ---- administration (broker_admin.cc)
  std::optional<AdapterNo> AdapterNamed(std::string_view name) const;
  void RemoveFromUse(AdapterNo adapter, SendAdapterEvent::What what);
  void TellAdapter(AdapterNo adapter, SendAdapterEvent::What what);
  void RemoveObject(Connector& c);
  void RemoveObject(Listener& l);
  void RemoveObject(SharedEndpoint& e);

  // ---- reserving and draining (broker_reserve.cc)
  // SUCCESS, or why nothing new is taken.
  Status Draining() const;
  // One for each adapter that has the address.
  std::vector<PortKey> KeysOf(const Address& local) const;
  // Nothing when there is no reservation of exactly this key.
  bool DropReservation(const PortKey& key);
  // The provider has said what it says of one port of a ReservePort; the last one answers it.
  void AnswerReserve(std::uint64_t request, const Status& status);

  // ---- host ports that nobody uses (broker_keep.cc)
  // Asks the provider to hold it; none when this adapter's provider does not do that.
  EndpointId Keep(const PortKey& key, std::uint64_t request);
  void LetGo(EndpointId endpoint);
  // Every lease of this adapter that is not held yet.
  void KeepLeases(AdapterNo adapter);
  // True when it was the answer to one of these.
  bool Kept(const CmReserved& event);

  static void FixRange(Settings* settings);
  static Settings Fixed(Settings settings);

  std::string AdapterOf(const Session& s) const;

  // ---- recounting (broker_check.cc)
  // In order of creation; of one kind, when one is asked for.
  std::vector<const Object*> AllObjects(std::optional<ObjectKind> kind = {}) const;

  // ---- output
  template <typename A>
  void Emit(A action) {
    out_->emplace_back(std::move(action));
  }
  void Note(Notice::Level level, std::string_view type, std::string object, std::string message);
  static std::string Show(Handle handle);
  static std::string Show(SessionId session);

  Settings settings_;
  Policy policy_;
  std::function<Result<Address>(const std::string&, const Address&)> resolve_;
  std::function<bool(const Process&)> may_come_back_;

  Time now_{};
  Actions* out_ = nullptr;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_attempt_ = 1;  // CmIds of active attempts; top bit clear.
  std::uint64_t next_endpoint_ = 1;
  std::uint64_t next_hand_off_ = 1;

  Quota quota_;  // Before everything that holds tokens.
  std::vector<AdapterState> adapters_;
  PortSpace ports_;
  TupleTable tuples_;
  SlotTable<std::unique_ptr<Object>> objects_;
  absl::btree_map<SessionId, Session> sessions_;
  absl::flat_hash_map<std::uint64_t, CmEntry> cm_;           // By CmId.
  absl::flat_hash_map<std::uint64_t, Handle> reservations_;  // By EndpointId.
  // A Keep() without an answer. `request`: of the ReservePort; 0: of a lease.
  struct Keeping {
    PortKey key;
    std::uint64_t request = 0;
  };
  absl::flat_hash_map<std::uint64_t, Keeping> keeping_;  // By EndpointId.
  // A ReservePort whose answer is due.
  struct Reserving {
    ReservePort event;
    std::vector<std::pair<PortKey, EndpointId>> ports;
    std::uint32_t open = 0;  // Answers that the provider owes.
    Status status;           // The first that was not SUCCESS.
  };
  absl::btree_map<std::uint64_t, Reserving> reserving_;  // By request.
  absl::btree_map<TimerKey, Timer> timers_;
  TimerKey grace_timer_;
  absl::btree_map<std::uint64_t, Time> waiting_;         // Sequence of Pending -> submitted.
  absl::btree_map<std::uint64_t, Handle> launch_queue_;  // Throttled connectors in order.
  std::uint32_t in_flight_ = 0;
  bool draining_ = false, stopping_ = false;
  Counters counters_;
  absl::btree_map<StatusCode, std::uint64_t> failures_;
  absl::btree_map<Detail, std::uint64_t> refusals_;
};

template <typename T>
T* Broker::Impl::Find(Handle handle) {
  return dynamic_cast<T*>(FindAny(handle));
}

template <typename T>
T* Broker::Impl::FindOwn(const Session& s, Handle handle) {
  T* const object = Find<T>(handle);
  return object != nullptr && object->session == s.id && !object->closing ? object : nullptr;
}

}  // namespace nd::core
