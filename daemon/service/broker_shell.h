// SPDX-License-Identifier: Apache-2.0
// Drives the core in the real world: events in, actions out, in order, never re-entered.
//
// Owns the core, the connection manager and the sessions. Loop thread for everything.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/event_loop.h"
#include "daemon/config.h"
#include "daemon/core/broker.h"
#include "daemon/ops/door.h"
#include "daemon/service/gate.h"
#include "daemon/service/hello.h"
#include "daemon/service/peer.h"
#include "daemon/service/record_sink.h"
#include "daemon/service/session.h"
#include "daemon/service/watch_hub.h"
#include "daemon/service/worker.h"
#include "daemon/state/lease_keeper.h"
#include "provider/cm.h"

namespace nd::service {

// The sockets at which peers arrive, in BrokerShell::doors().
inline constexpr const char* kPeersDoor = "peers";

using ManagerFactory = std::function<Result<std::unique_ptr<provider::ConnectionManager>>(
    const provider::ManagerOptions&, EventLoop&, provider::CmSink&)>;

class BrokerShell final : public provider::CmSink {
 public:
  struct Options {
    Config config;
    std::string directory;  // Of the lease journal.
    std::uint32_t boot_epoch = 1;
    std::uint64_t seed = 0;
    std::string version;
    ManagerFactory make_manager;
    // The connection with this socket cookie has proven itself.
    std::function<void(std::uint64_t cookie)> on_proven;
  };

  // Statuses of MakeConnectionManager. `loop`, `worker` and `hub` outlive the shell.
  static Result<std::unique_ptr<BrokerShell>> Make(EventLoop& loop, Worker& worker, WatchHub& hub,
                                                   Options options);
  ~BrokerShell() override;

  // A client connected its fd lane.
  void OfferLane(UniqueFd socket, const Peer& peer) { lane_gate_.Offer(std::move(socket), peer); }
  // The session that this stream belongs to now; 0: refused, and the stream was told and ended.
  core::SessionId Attach(const std::shared_ptr<SessionSink>& stream, HelloFacts hello);
  void Operation(core::SessionId session, core::OpId op_id, core::Op op);
  // The stream is over, or must be: ends the session.
  void StreamEnded(core::SessionId session, const Status& why);

  // An administrator's or another event for the core.
  void Run(core::Event event);
  // `done` learns what became of it, once, on the loop, maybe before this returns; not when the broker ends
  // first.
  void Reserve(core::ReservePort event, std::function<void(const Status&)> done);
  // Everything that may change while running; see NeedsRestart() for the rest.
  void Apply(const Config& config);
  // Tells every session that the broker stops; no SessionClosed, so that established connections stay.
  void Stop();
  // The longest time that one round of the loop took since the start.
  Duration LongestStall() {
    longest_stall_ = std::max(longest_stall_, loop_.TakeLongestRound());
    return longest_stall_;
  }
  // Before the loop runs. The sink outlives the shell.
  void AddRecordSink(RecordSink* sink) { record_sinks_.push_back(sink); }

  // What was turned away at which socket.
  ops::Doors& doors() { return doors_; }

  const core::Broker& core() const { return *core_; }
  const provider::ConnectionManager& manager() const { return *manager_; }
  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t pending_operations() const;  // Of all sessions.
  const Gate& lane_gate() const { return lane_gate_; }
  state::JournalState journal_state() const { return leases_.state(); }
  bool HasSession(core::SessionId id) const { return sessions_.contains(id); }
  Regions RegionsOf(core::SessionId session) const;
  std::optional<Traffic> TrafficOf(core::SessionId session, std::uint32_t slot) const;
  // What was handed over for this connector, once something was.
  struct Link {
    core::Handle connector;
    provider::Transport transport = provider::Transport::kNone;
    Address wire_local, wire_peer;  // The TCP addresses under it; unspecified family: none.
  };
  Link LinkOf(core::Handle connector) const;
  provider::Transport TransportOf(core::Handle connector) const { return LinkOf(connector).transport; }

  // provider::CmSink: only queues.
  void OnReserved(provider::EndpointId endpoint, const Status& status) override;
  void OnRequest(const provider::InboundRequest& request) override;
  void OnReached(provider::CmId id) override;
  void OnReply(provider::CmId id, bool limits_known, const ReadLimits& peer,
               const provider::Bytes& data) override;
  void OnRejected(provider::CmId id, const Status& status, const provider::Bytes& data) override;
  void OnFailed(provider::CmId id, const Status& status) override;
  void OnPrepare(provider::CmId id, const provider::Bytes& attributes) override;
  void OnEstablished(provider::CmId id) override;
  void OnLost(provider::CmId id, const Status& status, const provider::Bytes& data) override;
  void OnPeerClosed(provider::CmId id, DisconnectReason reason) override;
  void OnDisconnected(provider::CmId id, const Status& status) override;
  void OnAdaptersChanged() override;
  void OnAcceptError(int error) override;

 private:
  BrokerShell(EventLoop& loop, Worker& worker, WatchHub& hub, Options options);
  void Queue(core::Event event);
  void Drain();
  void ArmTimer();
  void TellOfJournal(bool good, const std::string& line);
  void AdmitLane(UniqueFd socket, const Peer& peer);
  void LaneRoom(core::SessionId id);
  void LaneMessage(core::SessionId id, std::span<const std::byte> bytes);
  void LaneHello(Session& session);
  core::SessionId Begin(Session& session, const std::shared_ptr<SessionSink>& stream, HelloFacts hello);
  // No other Hello finds it any more.
  void Claim(const Session& session);
  Session* Find(core::SessionId id);
  // `logged`: somebody has already said so.
  void EndSession(core::SessionId id, const Status& why, bool logged = false);
  void EndIf(core::SessionId id, const Status& status) {
    if (!status.ok()) EndSession(id, status);
  }
  void RefuseToken(const char* door, const core::Identity& who);
  void Refuse(const std::shared_ptr<SessionSink>& stream, core::OpId op_id, const Status& why);
  void Retire(std::shared_ptr<SessionSink> stream, const Status& why);

  void Do(core::Complete& action);
  void Do(core::HandOffTo& action);
  void Do(core::EndSession& action) { EndSession(action.session, action.why, /*logged=*/true); }
  void Do(core::Notice& action);
  void Do(core::ConnectionRecord& record);
  void Do(core::LeaseTaken& a) { leases_.Taken(a.lease); }
  void Do(core::LeaseFreed& a) { leases_.Freed(a.adapter, a.local); }
  void Do(core::ReserveDone& action);
  void Do(core::CmReserve& a) { manager_->Reserve(a.endpoint, a.adapter, a.local); }
  void Do(core::CmRelease& a) { manager_->Release(a.endpoint); }
  void Do(core::CmListen& a) { manager_->Listen(a.endpoint, a.adapter, a.local); }
  void Do(core::CmUnlisten& a) { manager_->Unlisten(a.endpoint); }
  void Do(core::CmConnect& action);
  void Do(core::CmAccept& action);
  void Do(core::CmReject& action);
  void Do(core::CmConfirm& action);
  void Do(core::CmPrepared& a) { manager_->Prepared(a.id, a.status); }
  void Do(core::CmAbort& a) { manager_->Abort(a.id); }
  void Do(core::CmDisconnect& a) { manager_->Disconnect(a.id); }
  template <typename Message>
  void Do(Message& action) {
    if (Session* session = Find(action.session)) EndIf(action.session, session->Send(Encode(action)));
  }

  EventLoop& loop_;
  Worker& worker_;
  WatchHub& hub_;
  const Options options_;
  const std::uint64_t own_network_ = OwnNetwork();
  ops::Doors doors_;
  Gate lane_gate_;
  std::unique_ptr<provider::ConnectionManager> manager_;
  std::unique_ptr<core::Broker> core_;
  state::LeaseKeeper leases_;
  std::deque<core::Event> events_;
  core::Actions actions_;
  bool running_ = false, drain_posted_ = false, adapters_changed_ = false;
  std::optional<EventLoop::TimerId> timer_;
  Time timer_due_{};

  pb::ClientMessage from_lane_;  // Kept for its memory.
  std::uint64_t last_session_ = 0;
  std::map<core::SessionId, std::unique_ptr<Session>> sessions_;
  std::multimap<std::uint32_t, core::SessionId> by_pid_;  // Waiting for Hello.
  std::vector<std::unique_ptr<Session>> ended_;           // Until no caller of theirs is on the stack.
  // Streams that are being ended politely, and when patience is over.
  std::map<std::uint64_t, std::pair<EventLoop::TimerId, std::shared_ptr<SessionSink>>> retiring_;
  std::uint64_t last_retired_ = 0;
  // By the connector's slot, which is used again: as many entries as there ever were connectors at once.
  std::unordered_map<std::uint32_t, Link> links_;
  std::vector<RecordSink*> record_sinks_;
  std::map<std::uint64_t, std::function<void(const Status&)>> reserving_;  // By ReservePort::request.
  std::uint64_t last_reserve_ = 0;
  Duration longest_stall_{};
};

}  // namespace nd::service
