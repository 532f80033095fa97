// SPDX-License-Identifier: Apache-2.0
// Connects the core to the real world: passes events in and executes actions in order, never re-entered.
//
// Owns the core, the connection manager and the sessions. Loop thread for every member.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/event_loop.h"
#include "base/ring_queue.h"
#include "daemon/config.h"
#include "daemon/core/broker.h"
#include "daemon/service/client_session.h"
#include "daemon/service/door.h"
#include "daemon/service/gate.h"
#include "daemon/service/hello.h"
#include "daemon/service/in_flight.h"
#include "daemon/service/peer.h"
#include "daemon/service/reaper.h"
#include "daemon/service/worker.h"
#include "daemon/shell/away_listeners.h"
#include "daemon/shell/ended_sessions.h"
#include "daemon/shell/reclaim_pace.h"
#include "daemon/shell/record_sink.h"
#include "daemon/shell/watch_hub.h"
#include "daemon/state/lease_keeper.h"
#include "provider/cm.h"

namespace nd::service {

// The name of the sockets for peers in BrokerShell::doors().
inline constexpr const char* kPeersDoor = "peers";

using ManagerFactory = std::function<Result<std::unique_ptr<provider::ConnectionManager>>(
    const provider::DaemonProviders&, EventLoop&, provider::CmSink&)>;

class BrokerShell final : public provider::CmSink, private core::SpareBoard {
 public:
  struct Options {
    Config config;
    std::string directory;  // The directory of the lease journal.
    std::uint32_t boot_epoch = 1;
    std::uint64_t seed = 0;
    std::string version;
    ManagerFactory make_manager;
    // Called when the connection with this socket cookie has sent a valid Hello.
    std::function<void(std::uint64_t cookie)> on_proven;
  };

  // The threads for blocking work. They outlive the shell.
  struct Threads {
    EventLoop& loop;
    Worker& hello;  // Reads /proc for a new client.
    Reaper& reaper;
  };
  // Fails with the statuses of MakeConnectionManager. `hub` outlives the shell.
  static Result<std::unique_ptr<BrokerShell>> Make(const Threads& threads, WatchHub& hub, Options options);
  ~BrokerShell() override;

  // Accepts the fd lane of a client.
  void OfferLane(UniqueFd socket, const Peer& peer) { lane_gate_.Offer(std::move(socket), peer); }
  // Attaches a stream and returns its session; 0 when refused, after the refusal was sent and the stream
  // ended.
  core::SessionId Attach(const std::shared_ptr<SessionSink>& stream, HelloFacts hello);
  void Operation(core::SessionId session, core::OpId op_id, session::Operation&& op);
  // Ends the session of a stream that is closed or has to be closed.
  void StreamEnded(core::SessionId session, const Status& why);

  // Runs an event of an administrator or another source in the core.
  void Run(core::Event&& event);
  // `done` receives the outcome once, on the loop, possibly before this returns. It is not called when the
  // broker ends first.
  void Reserve(core::ReservePort event, std::function<void(const Status&)> done);
  // Applies every setting that may change while running; NeedsRestart() names the others.
  void Apply(const Config& config);
  // Sends every session the end of the broker, without SessionClosed, so that established connections stay.
  void Stop();
  // The broker is about to stop: leaves listening sockets that outlive it to the next broker. Returns whether
  // there is one.
  bool LeaveListeners() { return manager_->LeaveListeners(); }
  // Returns the longest duration of one round of the loop since the start.
  Duration LongestStall() {
    longest_stall_ = std::max(longest_stall_, loop_.TakeLongestRound());
    return longest_stall_;
  }
  // Before the loop runs. The sink outlives the shell.
  void AddRecordSink(RecordSink* sink) { record_sinks_.push_back(sink); }

  // Counts refused connections by socket.
  ops::Doors& doors() { return doors_; }

  const core::Broker& core() const { return *core_; }
  const provider::ConnectionManager& manager() const { return *manager_; }
  std::size_t sessions() const { return sessions_.size(); }
  std::uint64_t pending_operations() const;  // The sum over all sessions.
  const Gate& lane_gate() const { return lane_gate_; }
  const InFlight& in_flight() const { return in_flight_; }
  Reaper::State reaper_state() const { return reaper_.state(); }
  state::JournalState journal_state() const { return leases_.state(); }
  bool HasSession(core::SessionId id) const { return sessions_.contains(id); }
  Regions RegionsOf(core::SessionId session) const;
  std::optional<Traffic> TrafficOf(core::SessionId session, std::uint32_t slot) const;
  // The transport that was handed over for a connector.
  struct Link {
    core::Handle connector;
    std::string_view transport;  // Its name for display.
    Address wire_local,
        wire_peer;  // The TCP addresses below the connection; family unspecified when there are none.
  };
  Link LinkOf(core::Handle connector) const;

  // provider::CmSink. Each callback only queues an event.
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
  void SendToClient(provider::ClientId client, std::span<const std::byte> message) override;
  void OnAcceptError(int error) override;

 private:
  BrokerShell(const Threads& threads, WatchHub& hub, Options options);
  void Queue(core::Event event);
  // Runs one event in the core, and its actions.
  void Step(const core::Event& event);
  // Runs those that wait.
  void Drain();
  // Posts the next slice of reclaiming the objects of ended sessions, behind other work of the loop.
  void PostReclaim();
  // Destroys some of the ended sessions that hold no more objects in the core.
  void ForgetEnded();
  // Posts ForgetEnded(), unless it is posted already.
  void PostForget();
  void ArmTimer();
  // Passes requests on that waited for listeners.
  void Resume(std::vector<provider::InboundRequest> requests);
  void ReportJournal(bool good, const std::string& line);
  void AdmitLane(UniqueFd socket, const Peer& peer);
  void LaneRoom(core::SessionId id);
  bool MayBeLate(core::SessionId id);
  // Reserves the descriptors of an operation before the core decides; afterwards a shortage could only end
  // the session. INSUFFICIENT_RESOURCES is then the completion of the operation. May end the session.
  Status Provide(ClientSession& session, const session::Operation& op);
  // core::SpareBoard
  bool Offer(core::SessionId id, core::SpareKind kind, std::uint32_t index, std::uint32_t value) override;
  bool Withdraw(core::SessionId id, core::SpareKind kind, std::uint32_t index) override;
  void LaneMessage(core::SessionId id, std::span<const std::byte> bytes);
  // Takes a message of the client half of a provider to its daemon half.
  void LaneHalves(core::SessionId id, std::span<const std::byte> datagram);
  // broker_shell_networks.cc: clients of other network namespaces.
  static bool IsForeign(const Peer& peer);
  bool GivesSockets(const Peer& peer) const;
  void LaneSockets(core::SessionId id, std::uint64_t op_id, std::vector<UniqueFd> sockets);
  // Checks the sockets and serves the network of the session. Any status but SUCCESS refuses its Hello.
  // INSUFFICIENT_RESOURCES: the user has used up the share of networks that one user may have served.
  Status MayOpenNetwork(const Peer& peer) const;
  Status JoinNetwork(ClientSession& session);
  void LeaveNetwork(ClientSession& session);
  // Gives the core the facts about the network of the client.
  void Place(const ClientSession& session, core::Identity& who) const;
  // Closes sockets that clients may share.
  void CloseGiven(std::uint32_t uid, std::vector<UniqueFd> sockets);
  // The socket that came for this operation; empty: none did, or it was taken.
  UniqueFd TakeGiven(core::SessionId id, core::OpId op_id);
  void DropGiven(ClientSession& session, core::OpId op_id);
  // INVALID_PARAMETER: a socket came for this operation and is unfit.
  static Status CheckGiven(const ClientSession& session, core::OpId op_id);
  void LaneHello(ClientSession& session, session::ClientMessage message);
  core::SessionId Begin(ClientSession& session, const std::shared_ptr<SessionSink>& stream, HelloFacts hello);
  // Removes the session from by_pid_, so that no other Hello finds it.
  void Claim(const ClientSession& session);
  ClientSession* Find(core::SessionId id);
  static provider::ClientId ClientOf(core::SessionId id) {
    return provider::ClientId{static_cast<std::uint64_t>(id)};
  }
  // `logged`: the end is logged already.
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
  void Do(core::CmReserve& a) {
    manager_->ReserveFor(ClientOf(a.session), a.listens, a.endpoint, a.adapter, a.local);
  }
  void Do(core::CmRelease& a) { manager_->Release(a.endpoint); }
  void Do(core::CmListen& action);
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
    if (ClientSession* session = Find(action.session)) EndIf(action.session, session->Send(action));
  }

  EventLoop& loop_;
  Worker& hello_worker_;
  Reaper& reaper_;
  WatchHub& hub_;
  const Options options_;
  InFlight in_flight_;
  ops::Doors doors_;
  Gate lane_gate_;
  std::unique_ptr<provider::ConnectionManager> manager_;
  std::unique_ptr<core::Broker> core_;
  state::LeaseKeeper leases_;
  AwayListeners away_;
  std::optional<EventLoop::TimerId> away_timer_;
  ReclaimPace reclaim_pace_;
  RingQueue<core::Event> events_;
  core::Actions actions_;
  bool running_ = false, drain_posted_ = false, reclaim_posted_ = false, forget_posted_ = false,
       adapters_changed_ = false, stopped_ = false;
  std::optional<EventLoop::TimerId> timer_;
  Time timer_due_{};

  std::uint64_t last_session_ = 0;
  std::map<core::SessionId, std::unique_ptr<ClientSession>> sessions_;
  // A served network stays for a while after its last session.
  struct Network {
    std::uint32_t uid = 0;  // The user whose session was the first.
    std::uint32_t sessions = 0;
    std::optional<EventLoop::TimerId> closing;
  };
  std::map<std::uint64_t, Network> networks_;
  std::multimap<std::uint32_t, core::SessionId> by_pid_;  // Lanes that wait for Hello.
  // Kept until no caller of theirs is on the stack and the core has reported the end of their connections.
  EndedSessions<ClientSession> ended_;
  // Streams that are flushing their last messages, with the timer that cuts them.
  std::map<std::uint64_t, std::pair<EventLoop::TimerId, std::shared_ptr<SessionSink>>> retiring_;
  std::uint64_t last_retired_ = 0;
  // By the slot of the connector. Slots are reused, so the size is the peak number of connectors.
  std::unordered_map<std::uint32_t, Link> links_;
  std::vector<RecordSink*> record_sinks_;
  std::map<std::uint64_t, std::function<void(const Status&)>> reserving_;  // By ReservePort::request.
  std::uint64_t last_reserve_ = 0;
  Duration longest_stall_{};
};

}  // namespace nd::service
