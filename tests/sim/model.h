// SPDX-License-Identifier: Apache-2.0
// The reference model: the results that the specification requires of each event, in plain lists.
//
// Written from the rules (docs/status.md, docs/architecture.md), not from the core. It keeps no counts and no
// indexes: ports, 4-tuples, charges and successors are searched or counted each time. After each event it
// computes which operations must have completed and how, and the contents of every row. It cannot predict the
// numbers of new handles and the choice of ephemeral ports: it takes them from the core and checks that the
// choice was allowed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "daemon/core/broker.h"
#include "tests/sim/tables.h"

namespace nd::sim {

using provider::Bytes;

class Model {
 public:
  enum State : std::uint8_t { U, B, W, C, R, K, I, A, E, P, D, X };
  static constexpr std::size_t kStates = 12;

  struct Options {
    std::uint32_t epoch = 1;
    core::Settings settings;
    std::uint32_t reclaim_slice = 64;
    core::Policy policy;
    std::vector<provider::AdapterDescription> adapters;
    std::vector<core::Lease> leases;
    Time leases_until{};
    Duration grace{};
    core::Prove prove;
    // A test-only fault of the model; see faults.h.
    std::function<bool(const char*)> broken;
    // Called for every change of the state of a connector.
    std::function<void(State from, State to)> moved;
  };
  explicit Model(Options options);

  // Returns the differences of the core from the model, one line each; empty without any.
  std::string Step(Time now, const core::Event& event, const core::Actions& actions, const Tables& tables);

  // The result of an operation in a state according to b.1, for tests of the table: SUCCESS is "go".
  struct Flags {
    bool data = false, bound = false, was_up = false, withdrawn_incoming = false, withdrawn_replied = false,
         expired = false, told = false, notify_success = false;
  };
  enum Operation : std::uint8_t {
    kBind,
    kConnectNd2,
    kConnectNdk,
    kComplete,
    kAccept,
    kReject,
    kLimits,
    kData,
    kLocal,
    kPeer,
    kNotify,
    kDisconnect,
    kGet
  };
  static constexpr std::size_t kOperations = 13;
  static StatusCode Table(Operation operation, State state, const Flags& flags);

  // b.4
  static ReadLimits Offer(const ReadLimits& asked, const ReadLimits& caps);
  static ReadLimits PassiveSees(const ReadLimits& offer, const ReadLimits& caps);
  static ReadLimits Granted(const ReadLimits& asked, const ReadLimits& offer, const ReadLimits& caps);
  static std::optional<ReadLimits> ActiveEnds(const ReadLimits& offer, const ReadLimits& granted,
                                              const ReadLimits& caps);

 private:
  using Id = std::uint64_t;
  using SessionId = core::SessionId;
  using OpId = core::OpId;
  using Handle = core::Handle;
  enum class Kind : std::uint8_t { kAdapter, kPair, kConnector, kListener, kEndpoint };

  struct Adapter {
    provider::AdapterDescription description;
    bool present = true, enabled = true;
  };
  // One place of the port space.
  struct Key {
    std::size_t adapter = 0;
    Address at;
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  struct Port {
    Kind kind = Kind::kConnector;
    bool closing = false, reattached = false, reserving = false, reserved = false;
    bool lease = false;  // Held since an earlier life of the broker, for its former holder only.
    Id holder = 0;
    SessionId session{};
    std::uint32_t uid = 0, pid = 0;
    std::uint64_t born = 0;
  };
  struct Thing {
    Id id = 0;
    Kind kind = Kind::kAdapter;
    Handle handle;
    SessionId session{};
    std::size_t adapter = 0;
    Id opened = 0;  // The adapter that it was made on.
    bool closing = false, removed = false;
    OpId close_op = 0, op = 0;
    // Of every thing with a port.
    Address local;
    std::optional<Key> hold;
    bool reserving = false, any = false;
    std::uint32_t candidates = 0;
    // Connector
    State state = U;
    bool passive = false, persistent = false, reattaching = false, made_pair = false, tuple = false;
    Address remote;
    Id through = 0, waits_at = 0, pair = 0;
    std::optional<provider::CmId> cm;
    bool launched = false;
    Time launched_at{};
    std::optional<Time> establish, goodbye;
    ReadLimits offer, limits;
    Bytes data, send_data;
    bool refusal_data = false, was_up = false, withdrawn_incoming = false, withdrawn_replied = false,
         expired = false, told = false, disconnect_event = false, preparing = false;
    StatusCode ended = StatusCode::kSuccess;
    std::vector<OpId> notifies;
    // Listener
    bool bound = false, listening = false, then_listen = false, events = false, paused = false;
    std::uint32_t asked_backlog = 0, backlog = 0;
    std::deque<provider::InboundRequest> requests;
    std::deque<Id> gets;
    // Queue pair
    Id connector = 0;
    bool spent = false, ndk = false;
  };
  struct Session {
    core::Identity who;
    bool ending = false, charged = true;
    bool closed = false;  // Closed; its objects are being reclaimed.
    std::set<OpId> running;
    std::map<OpId, StatusCode> done;
  };
  // A completion that must come with this step.
  struct Expected {
    StatusCode code{};
    std::optional<ReadLimits> limits;
    std::optional<Bytes> data;
    std::optional<Address> address;
    std::optional<Bytes> proof;
    std::function<void(const core::Complete&)> learn;  // Takes the handles from the completion.
  };

  // ---- model.cc
  void Fail(const std::string& what) { errors_ += what + "\n"; }
  void Check(bool condition, const std::string& what) {
    if (!condition) Fail(what);
  }
  Expected& End(SessionId session, OpId op, StatusCode code);
  Expected& Finish(Thing& thing, OpId& op, StatusCode code);
  void Compare(const core::Actions& actions);
  void CompareRows(const Tables& tables);
  void CheckShare(const Thing& starts);
  void CompareConnections(const Tables& tables);
  void ComparePorts(const Tables& tables);
  std::string Difference(const Key& key, const Port& port, const core::PortRow& row) const;
  void Learn(const Tables& tables);
  template <typename T>
  const T* Seen(std::function<bool(const T&)> which);
  void Move(Thing& c, State to);
  Thing& Make(Kind kind, SessionId session, std::size_t adapter, Id opened);
  Thing* Find(Id id);
  // Records the handle that the core chose, which must be new in this life of the broker.
  void GiveName(Thing& thing, Handle handle);
  Thing* ByHandle(Handle handle);
  Thing* Own(SessionId session, Handle handle, std::optional<Kind> kind);
  Thing* ByCm(provider::CmId id);
  const AdapterInfo& Info(std::size_t adapter) const { return adapters_[adapter].description.info; }
  const AdapterInfo& Info(const Thing& thing) const { return Info(thing.adapter); }
  ReadLimits Caps(const Thing& thing) const {
    return {Info(thing).max_inbound_read_limit, Info(thing).max_outbound_read_limit};
  }
  bool Client(const Thing& thing) const { return adapters_[thing.adapter].description.client_disconnects; }

  // ---- model_ports.cc
  StatusCode CheckLocal(const Session& s, std::size_t adapter, const Address& local, bool wildcard) const;
  static bool Same(const Key& a, const Key& b);
  // `who`: the caller, whose own leases do not conflict.
  bool Conflicts(const Key& key, const core::Identity* who) const;
  bool KeptFor(const Key& key, std::optional<std::uint32_t> uid) const;
  // MayBind: whether a rule lets this user take the port of `local` by number. HasShare: whether the user's
  // share has room for another ephemeral port.
  StatusCode MayBind(const Session& s, std::size_t adapter, const Address& local) const;
  bool HasShare(const Session& s, std::size_t adapter, const Address& local) const;
  static bool KeptForProcess(const Port& lease, const core::Identity& who);
  StatusCode Take(Thing& thing, const Address& local);
  void Drop(Thing& thing);
  bool FreePort(std::size_t adapter, const Address& local) const;
  bool Reserve(Thing& thing);  // Returns true when the answer of the host is pending.
  void Choose(Thing& thing, const Address& chosen);
  StatusCode Quota(const Session& s, Kind kind) const;
  StatusCode QuotaOfPorts(const Session& s) const;
  const Thing* TupleHolder(std::size_t adapter, const Address& local, const Address& remote, bool passive,
                           bool* waiting) const;
  bool TupleTaken(std::size_t adapter, const Address& local, const Address& remote, bool passive,
                  const Thing* except) const;
  void Reserved(Thing& thing, StatusCode status);

  // ---- model_life.cc
  void CancelAll(Thing& c, StatusCode code);
  void Kill(Thing& c);
  void Detach(Thing& c);
  void FailConnect(Thing& c, StatusCode code);
  void Destroy(Id id);
  void DestroyConnector(Thing& c);
  void MaybeFinishClose(Id id);
  void StartGoodbye(Thing& c);
  void FinishGoodbye(Thing& c, StatusCode code);
  void AfterDead(Thing& c);
  void PeerClosed(Thing& c);
  void Up(Thing& c);
  void StopListening(Thing& l, Detail detail, StatusCode gets);
  void CancelGets(Thing& l, StatusCode code);
  // Returns the number of requests that were delivered as events and have no answer.
  std::size_t Unanswered(const Thing& l) const;
  void StartListening(Thing& l);
  void CloseThing(Thing& thing, bool ndk);
  void Deliver(Thing& c, Thing& l, const provider::InboundRequest& request);
  void ExpectReject(provider::CmId id, Detail detail);
  void RemoveThings(std::size_t adapter);
  StatusCode Judge(Operation operation, const Thing& c) const;
  StatusCode PairStatus(const Thing& pair);
  static bool Retryable(StatusCode code);

  // ---- model_events.cc, model_wire.cc (Cm...)
  void On(const core::SessionOpened& e);
  void On(const core::SessionClosed& e);
  void On(const core::ReclaimSome& e);
  // Reclaims a part of the objects of a closed session. Returns true when none is left.
  bool TakeBack(SessionId session);
  void TakeBack(Thing& t);
  bool Closed(const Thing& t) const { return sessions_.at(t.session).closed; }
  // Returns the thing of a report of the wire; null when it is gone.
  Thing* OpenByCm(provider::CmId id);
  // The wire has ended the attempt. Returns false when no application has to be informed.
  bool WireEnded(Thing& c);
  void On(const core::ClientOp& e);
  void On(const core::CmReserved& e);
  void On(const core::CmRequested& e);
  void On(const core::CmReached&) {}
  void On(const core::CmReplied& e);
  void On(const core::CmRejected& e);
  void On(const core::CmFailed& e);
  void On(const core::CmPrepare& e);
  void On(const core::CmEstablished& e);
  void On(const core::CmLost& e);
  void On(const core::CmPeerClosed& e);
  void On(const core::CmDisconnected& e);
  void On(const core::AdaptersChanged& e);
  void On(const core::Tick& e);
  void On(const core::SetAdapter& e);
  void On(const core::KillConnection& e);
  void On(const core::KillSession& e);
  void On(const core::PauseListener& e);
  void On(const core::SettingsChanged& e);
  void On(const core::SetDraining& e) { draining_ = e.drain; }
  void On(const core::ReservePort& e);
  void On(const core::ReleasePort& e);
  void On(const core::Stopping&) {}
  std::vector<Key> KeysOf(const Address& local) const;
  void ReleaseReservation(const Key& key);
  void SettleReserves();
  void Lost(Thing& c, StatusCode code, Detail detail, const Bytes& data);
  void LoseWaiting(provider::CmId id);

  // ---- model_ops.cc, model_connect.cc, model_listen.cc, model_transport.cc: each completes `op` of `s` or
  // leaves it pending at a thing
  void Do(SessionId s, OpId op, const core::ListAdaptersOp& o);
  void Do(SessionId s, OpId op, const core::OpenAdapterOp& o);
  void Do(SessionId s, OpId op, const core::ResolveAddressOp& o);
  void Do(SessionId s, OpId op, const core::CheckAddressOp& o);
  void Do(SessionId s, OpId op, const core::CreateQueuePairOp& o);
  void Do(SessionId s, OpId op, const core::CreateConnectorOp& o);
  void Do(SessionId s, OpId op, const core::CreateListenerOp& o);
  void Do(SessionId s, OpId op, const core::CreateSharedEndpointOp& o);
  void Do(SessionId s, OpId op, const core::CloseOp& o);
  void Do(SessionId s, OpId op, const core::BindOp& o);
  void Do(SessionId s, OpId op, const core::ConnectOp& o);
  void Do(SessionId s, OpId op, const core::CompleteConnectOp& o);
  void Do(SessionId s, OpId op, const core::AcceptOp& o);
  void Do(SessionId s, OpId op, const core::RejectOp& o);
  void Do(SessionId s, OpId op, const core::GetReadLimitsOp& o);
  void Do(SessionId s, OpId op, const core::GetPrivateDataOp& o);
  void Do(SessionId s, OpId op, const core::GetLocalAddressOp& o);
  void Do(SessionId s, OpId op, const core::GetPeerAddressOp& o);
  void Do(SessionId s, OpId op, const core::NotifyDisconnectOp& o);
  void Do(SessionId s, OpId op, const core::DisconnectOp& o);
  void Do(SessionId s, OpId op, const core::CancelOp& o);
  void Do(SessionId s, OpId op, const core::ListenOp& o);
  void Do(SessionId s, OpId op, const core::ControlConnectEventsOp& o);
  void Do(SessionId s, OpId op, const core::GetConnectionRequestOp& o);
  void Do(SessionId s, OpId op, const core::TransportReportOp& o);
  void Do(SessionId s, OpId op, const core::ReattachOp& o);
  StatusCode MayReattach(const Session& s, std::size_t adapter, const core::ReattachOp& o) const;
  Thing* UsableAdapter(SessionId s, OpId op, Handle handle);
  Thing* UsableConnector(SessionId s, OpId op, Handle handle);
  void Create(Kind kind, SessionId s, OpId op, Handle adapter);
  StatusCode ConnectLocal(const Session& s, Thing& c, const core::ConnectOp& o, Thing* endpoint);

  Options options_;
  core::Settings settings_;
  core::Policy policy_;
  std::vector<Adapter> adapters_;
  std::map<SessionId, Session> sessions_;
  std::map<Id, Thing> things_;
  std::map<Handle, Id> handles_;  // The handles of existing things.
  std::set<Handle> given_;        // Every handle of this life of the broker.
  std::map<std::uint32_t, Time> user_returns_until_;
  std::map<Key, Port> ports_;
  std::map<Key, std::optional<std::uint32_t>> kept_;  // Reserved by the administrator.
  // A ReservePort that waits for the host, with the ports without an answer.
  struct Reserving {
    std::set<Key> keys;
    std::map<provider::EndpointId, Key> open;
    bool failed = false;
  };
  std::vector<Reserving> reserving_;
  bool draining_ = false;
  std::map<provider::EndpointId, Id> reservations_;
  std::deque<SessionId> reclaiming_;     // Closed sessions in the order of reclaiming.
  std::set<std::uint64_t> waiting_ids_;  // CmIds of requests that wait at listeners.
  Id next_ = 1;
  // State of one step.
  Time now_{};
  const core::Actions* actions_ = nullptr;
  std::map<std::pair<SessionId, OpId>, Expected> expected_;
  std::map<std::uint64_t, Detail> expected_rejects_;
  std::set<SessionId> expected_ends_;
  // Connects that a late Tick ended. One of them may have been sent before, in the place that another one
  // freed.
  std::vector<std::pair<Key, Address>> late_;
  std::string errors_;
};

}  // namespace nd::sim
