// SPDX-License-Identifier: Apache-2.0
// The tables of the broker and the functions over them, which are in broker_*.cc by subject.
//
// Rules: the comment of a function says when it may free objects; after such a call, objects are looked up
// again. Every Pending ends through Finish(). Iteration only over ordered containers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/container/flat_hash_map.h"
#include "daemon/core/attempts.h"
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
  std::size_t AdapterPlaces() const { return adapters_.size(); }
  std::vector<ListenerRow> Listeners() const;
  std::vector<ConnectionRow> Connections() const;
  std::vector<QueuePairRow> QueuePairs() const;
  std::vector<EndpointRow> Endpoints() const;
  std::vector<PortRow> Ports() const;
  std::vector<SessionRow> Sessions() const;
  Counters counters() const;
  std::optional<Time> OldestPending() const { return sessions_.OldestPending(); }
  std::string CheckInvariants() const;
  bool draining() const { return draining_; }
  bool reclaiming() const { return sessions_.reclaiming(); }
  bool HasSession(SessionId id) const { return sessions_.Find(id) != nullptr; }
  std::uint64_t BytesKeptFor(std::uint32_t uid) const { return quota_.BytesOf(uid); }
  const Policy& policy() const { return policy_; }
  Quota::Usage UsageOf(std::uint32_t uid) const;
  std::optional<Identity> OwnerOf(SessionId session) const;
  std::uint32_t NextCounterSlot(SessionId session) const;
  const core::Ports& ports() const { return ports_; }

 private:
  // Hard bounds that protect the broker; the administrator sets quotas.
  static constexpr std::uint32_t kMaxOpenAdapters = 1024;

  enum class TimerKind : std::uint8_t { kPace, kEstablish, kGoodbye, kGrace };
  struct Timer {
    Handle connector;  // None of kGrace.
    TimerKind kind;
  };
  // The meaning of a CmId: a connector, or a request in the queue of a listener.
  struct CmEntry {
    Handle connector;
    Handle listener;
    std::uint64_t key = 0;
    Time arrived{};
  };

  // ---- events (broker.cc, broker_sessions.cc, broker_admin.cc, broker_wire.cc)
  void On(const SessionOpened& event);
  void On(const SessionClosed& event);
  void On(const ReclaimSome& event);
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
  Session& SessionOf(SessionId id) { return sessions_.At(id); }
  // Completes `pending` (empty: nothing to do) and empties it.
  void Finish(SessionId session, Pending& pending, Status status, Reply&& reply = {});
  void EndSessionNow(Session& s, Status why);

  // ---- objects (broker_objects.cc)
  Object* FindAny(Handle handle);
  // Finds an object that the client may use: live, its own, of that kind, not closing.
  template <typename T>
  T* FindOwn(const Session& s, Handle handle);
  // Returns the object for an operation that needs its adapter. Otherwise finishes `p` with the reason and
  // returns null. A connector that waits for its port after a restart of the broker cannot be used yet.
  Connector* UseConnector(Session& s, Pending& p, Handle handle);
  Listener* UseListener(Session& s, Pending& p, Handle handle);
  template <typename T>
  T* Find(Handle handle);
  Connector& ConnectorAt(Handle handle);
  // `spare`, if any, becomes the object.
  template <typename T>
  T* Create(Session& s, const OpenedAdapter& adapter, Status* why, Spare* spare = nullptr);
  static Status CheckDepths(const AdapterInfo& adapter, std::uint32_t receive, std::uint32_t initiator);
  QueuePair* MakeQueuePair(Session& s, const OpenedAdapter& adapter, const CreateQueuePairOp& op, Status* why,
                           Spare* spare = nullptr);
  // Frees the object and possibly its antecedents, and finishes operations that waited for it.
  void Destroy(Object& object);
  // Finishes a pending Close of an object without successors: may free it.
  void MaybeFinishClose(Handle handle);
  void DropSuccessor(Handle antecedent);
  std::optional<Quota::Token> Charge(const Session& s, Resource resource, Status* why);
  AdapterState& StateOf(const Object& object) { return adapters_[object.adapter_no]; }
  const AdapterState& StateOf(const Object& object) const { return adapters_[object.adapter_no]; }
  // Returns the open adapter to create an object on; otherwise finishes `p` with the reason and returns null.
  OpenedAdapter* UsableAdapter(Session& s, Pending& p, Handle handle);
  static bool Gone(const AdapterState& adapter) { return !adapter.present || !adapter.enabled; }

  // ---- objects that clients make ahead (broker_spares.cc)
  // Offers the client what it has used.
  void OfferSpares(Session& s);
  // Takes back the offers that nobody has taken: of one user, or of all.
  void WithdrawSpares(std::optional<std::uint32_t> uid = {});
  void ReleaseSpare(Session& s, SpareKind kind, Spare& spare);
  void ReleaseSpares(Session& s);  // The client is gone.
  // Returns null when the operation uses no spare: it names none, or one that is not offered.
  static Spare* FindSpare(Session& s, SpareKind kind, std::uint32_t number);
  // As UsableAdapter(). With a spare the object is as old as the taking of the spare, so the adapter may have
  // been removed since.
  OpenedAdapter* AdapterFor(Session& s, Pending& p, Handle handle, SpareKind kind, Spare* spare);
  // Lets operations of the session name the object by the operation that made it.
  void NameObject(Session& s, Object& object, OpId made_by);

  // ---- ports (broker_bind.cc)
  PortTaker TakerOf(const Session& s, const Object& object) const;
  // Continues the pending operation after the port was granted or refused.
  void Reserved(Connector& c, Status status);
  void Reserved(Listener& l, Status status);
  void Reserved(SharedEndpoint& e, Status status);
  // ACCESS_DENIED where no rule lets this user take the very port of `local`.
  Status CheckBind(const Session& s, const Object& object, const Address& local) const;

  // ---- connections that come back (broker_reattach.cc)
  ConnectionFacts FactsOf(const Connector& c);
  // SUCCESS, or why this session may not bring this connection back: no proof, too late, no rule.
  Status CheckReattach(const Session& s, const std::string& adapter, const ReattachOp& op) const;
  // After the end of a session whose application goes on.
  void LetConnectionsReturn(const Session& s);
  static Process ProcessOf(const Session& s) { return {UserOf(s.who()), s.who().pid, s.who().born}; }

  // ---- what a session sees of an adapter (broker_objects.cc)
  // CheckLocalAddress() for this session: in another network namespace an adapter has no address.
  Status CheckLocal(const Session& s, const AdapterInfo& adapter, const Address& local,
                    bool allow_unspecified) const;
  static AdapterInfo SeenBy(const Session& s, const AdapterInfo& adapter);
  // Returns true when the adapter belongs to the network of this session.
  static bool Sees(const Session& s, const AdapterState& adapter);

  // ---- connecting (broker_connect.cc)
  ConnectorFlags FlagsOf(const Connector& c) const;
  StatusCode VerdictOf(ConnectorOp op, const Connector& c) const;
  // CONNECTION_ACTIVE: in use; INVALID_DEVICE_STATE: was connected before.
  Status CheckQueuePair(const QueuePair& q);
  Status ConnectLocal(Session& s, Connector& c, const ConnectOp& op, SharedEndpoint* endpoint);
  void Launch(Connector& c);  // Queues it; the event that it belongs to ends with LaunchWaiting().
  void SendConnect(Connector& c);
  void LaunchWaiting();
  // Removes it from the queue or from the flights; others may be sent in its place.
  void LeaveAttempts(Connector& c);
  // Removes it from the queue only; a flight stays, and no other is sent.
  void LeaveLine(Connector& c);
  // Connect failed: back to Bound or Unbound when retryable, else Dead. May free a closing endpoint.
  void FailConnect(Connector& c, Status status);
  void ReleaseTuple(Connector& c);
  void DetachQueuePair(Connector& c);
  void ForgetCm(Connector& c, bool abort);
  // Returns the connector of the attempt, or null when the event is to be ignored: connectors of a closed
  // session stay unchanged until they are reclaimed, which withdraws them from the wire.
  Connector* FindByCm(CmId id);
  // Forgets the CmId of an attempt that the wire ended. Returns false when it belongs to a closed session and
  // needs no further action.
  bool ForgetEndedCm(Connector& c);
  Connector* TakeConnecting(CmId id);
  // Withdraws an attempt that is not established and makes the connector Dead. Does not finish operations.
  // `ending` goes into the record, unless the end was recorded before.
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
  // The request was answered or has ended: frees its place in the backlog.
  void LeaveBacklog(Connector& c);
  // Returns the listener for the request; null with the reason when there is none.
  Listener* ListenerFor(AdapterNo adapter, const provider::InboundRequest& request, Detail* why);
  TupleKey TupleOf(const Connector& c) const { return {c.adapter_no, c.local, c.remote}; }

  // ---- listening (broker_listen.cc)
  void StartListening(Listener& l);
  void StopListening(Listener& l, Detail detail, const Status& gets);
  void CancelGets(Listener& l, const Status& status);
  // Refuses the oldest waiting request; returns false when there is none.
  bool RefuseOldest(Listener& l, Detail detail);
  void SetPaused(Listener& l, bool paused);

  // ---- disconnecting (broker_disconnect.cc)
  void FinishNotifies(Connector& c, const Status& status);
  std::uint32_t DisconnectTimeoutMs() const;
  // `begun`: by the client, which gets no order then.
  void StartGoodbye(Connector& c, bool begun = false);
  void FinishGoodbye(Connector& c, Status status);  // May free it.
  // `seen`: the status of the application's transport, or SUCCESS.
  void PeerClosed(Connector& c, DisconnectReason reason, const Status& seen = {});
  // After the connector became Dead: continues a Close, its own or that of its queue pair, that waited for
  // it.
  void AfterDead(Connector& c);

  // ---- closing (broker_close.cc)
  // Completes every outstanding operation in order of submission; a Waiting connector leaves its listener.
  void CancelAll(Connector& c, const Status& status);
  void Cancel(Connector& c);
  void Cancel(Listener& l);
  void DestroyConnector(Connector& c, Ending ending);
  void Close(Connector& c);
  void Close(Listener& l);
  void Close(SharedEndpoint& e);
  void Close(OpenedAdapter& a);
  void Close(QueuePair& q, bool ndk);
  void Reclaim(Object& object);  // For an ended session: at once, without the client.
  // Reclaims up to reclaim_slice_ objects of a closed session. Returns true when none is left.
  bool ReclaimSlice(Session& s);

  // ---- records (broker_record.cc)
  // `began`: when the request was made or arrived.
  void BeginAttempt(Connector& c, Time began);
  void RecordEstablished(Connector& c);
  // Does nothing when the end was recorded before or no attempt had begun.
  void RecordEnd(Connector& c, Ending ending);
  ConnectionRecord RecordOf(const Connector& c);
  // The ending according to the transport, corrected by the knowledge of this broker.
  Ending EndingOf(const Connector& c, DisconnectReason reason, const Status& seen) const;
  static Ending EndingOf(const Session& s, const Connector& c);
  // The other end of an established connection, if it is at this broker.
  Connector* OtherEndOf(const Connector& c);
  void TellOtherEnd(const Connector& c, const Ending& ending);

  // ---- administration (broker_admin.cc)
  void RemoveFromUse(AdapterNo adapter, SendAdapterEvent::What what);
  void TellAdapter(AdapterNo adapter, SendAdapterEvent::What what);
  void AddAdapter(const provider::AdapterDescription& description);
  void RemoveObject(Connector& c);
  void RemoveObject(Listener& l);
  void RemoveObject(SharedEndpoint& e);

  // SUCCESS, or the reason why new work is refused.
  Status Draining() const;
  static void FixRange(Settings* settings);
  static Settings Fixed(Settings settings);

  std::string AdapterOf(const Session& s) const;

  // ---- recounting (broker_check.cc)
  // Objects in order of creation, optionally of one kind.
  std::vector<const Object*> AllObjects(std::optional<ObjectKind> kind = {}) const;

  // ---- output
  template <typename A>
  void Emit(A&& action) {
    output_.Emit(std::forward<A>(action));
  }
  void Note(Notice::Level level, std::string_view type, std::string object, std::string message) {
    output_.Note(level, type, std::move(object), std::move(message));
  }
  // "10.0.0.1:5 and 10.0.0.2:6" with `between` = " and ", and `end` behind it.
  static std::string Ends(const Connector& c, std::string_view between, std::string_view end);
  static std::string Show(Handle handle);
  static std::string Show(SessionId session);

  Settings settings_;
  std::uint32_t reclaim_slice_;
  Policy policy_;
  std::function<Result<Address>(const std::string&, const Address&)> resolve_;
  const Prove prove_;
  SpareBoard* const board_;
  const Duration grace_;
  const Time connections_return_until_;

  Time now_{};
  Output output_;
  std::uint64_t next_sequence_ = 1;
  std::uint64_t next_attempt_ = 1;  // CmIds of active attempts; top bit clear.
  std::uint64_t next_hand_off_ = 1;

  Quota quota_;               // Declared before every holder of its tokens.
  std::uint32_t spares_ = 0;  // Of all sessions; objects_ keeps room for them.
  absl::btree_set<std::pair<std::uint32_t, SessionId>> have_spares_;  // Or have had; by user.
  AdapterTable adapters_;
  core::Ports ports_;
  TupleTable tuples_;
  SlotTable<std::unique_ptr<Object>> objects_;
  core::Sessions sessions_;
  absl::flat_hash_map<std::uint64_t, CmEntry> cm_;  // By CmId.
  absl::btree_map<TimerKey, Timer> timers_;
  TimerKey grace_timer_;
  // Until when a user whose session was ended may bring its connections back, by uid.
  absl::btree_map<std::uint32_t, Time> user_returns_until_;
  Attempts attempts_;
  bool draining_ = false, stopping_ = false;
  Counters counters_;
  absl::btree_map<Detail, std::uint64_t> refusals_;
};

template <typename T>
T* Broker::Impl::Find(Handle handle) {
  Object* const object = FindAny(handle);
  return object != nullptr && object->kind == T::kKind ? static_cast<T*>(object) : nullptr;
}

template <typename T>
T* Broker::Impl::FindOwn(const Session& s, Handle handle) {
  T* const object = Find<T>(handle);
  return object != nullptr && object->session == s.id && !object->closing ? object : nullptr;
}

}  // namespace nd::core
