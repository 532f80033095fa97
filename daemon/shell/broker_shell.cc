// SPDX-License-Identifier: Apache-2.0
// The event queue, the execution of actions, and the callbacks of the connection manager. Sessions are in
// broker_shell_sessions.cc, descriptors for clients in broker_shell_hand_over.cc.
#include "daemon/shell/broker_shell.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "base/locate.h"
#include "base/os/error_text.h"
#include "base/os/self.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/probes.h"
#include "daemon/ops/process.h"
#include "daemon/service/acceptor.h"
#include "daemon/shell/id_text.h"
#include "daemon/state/journal_file.h"
#include "daemon/state/reattach_key.h"

namespace nd::service {
namespace {

// Requests wait at most this long for a listener of the previous broker. Sessions are back sooner.
constexpr Duration kListenersReturn = std::chrono::seconds(2);

// Converts the handle of a notice to the id that ndctl shows.
std::string NoticeObject(std::string_view type, const std::string& object) {
  std::uint64_t value = 0;
  const bool session = type.starts_with("session.");
  const char* end = object.data() + object.size();
  const auto parsed = std::from_chars(object.data(), end, value, session ? 10 : 16);
  if (object.empty() || parsed.ec != std::errc() || parsed.ptr != end) return object;
  if (session) return IdText('s', value);
  if (type.starts_with("connection.")) return IdText('c', value);
  if (type.starts_with("listener.")) return IdText('l', value);
  if (type.starts_with("endpoint.")) return IdText('e', value);
  return object;
}

}  // namespace

BrokerShell::BrokerShell(const Threads& threads, WatchHub& hub, Options options)
    : loop_(threads.loop),
      hello_worker_(threads.hello),
      reaper_(threads.reaper),
      hub_(hub),
      options_(std::move(options)),
      in_flight_(ops::FdLimit()),
      lane_gate_(
          kLaneSocketName, doors_[kLaneSocketName],
          {options_.config.limits.unauthenticated, options_.config.limits.unauthenticated_per_uid,
           options_.config.limits.connections_per_uid},
          [this](UniqueFd fd, const Peer& peer) { AdmitLane(std::move(fd), peer); },
          [this] { loop_.PostFor(kArrivals, [this] { lane_gate_.AdmitWaiting(); }); }),
      leases_(loop_, {options_.directory, options_.config.broker.reclaim_grace,
                      [this](bool good, const std::string& line) { ReportJournal(good, line); }}) {
  doors_.try_emplace(kPeersDoor);
}

void BrokerShell::ReportJournal(bool good, const std::string& line) {
  good ? ops::LogInfo(line) : ops::LogWarning("journal", line);
  hub_.Publish(good ? "journal.resumed" : "journal.trouble", "", line);
}

Result<std::unique_ptr<BrokerShell>> BrokerShell::Make(const Threads& threads, WatchHub& hub,
                                                       Options options) {
  EventLoop& loop = threads.loop;
  std::unique_ptr<BrokerShell> shell(new BrokerShell(threads, hub, std::move(options)));
  const Options& given = shell->options_;
  Result<std::unique_ptr<provider::ConnectionManager>> manager =
      given.make_manager(given.config.providers, loop, *shell);
  if (!manager.ok()) return manager.status();
  shell->manager_ = std::move(manager.value());
  core::Broker::Options core;
  core.boot_epoch = given.boot_epoch;
  core.seed = given.seed;
  core.reclaim_slice = shell->reclaim_pace_.slice();
  core.settings = given.config.core;
  core.policy = core::Policy(given.config.rules);
  core.adapters = shell->manager_->adapters();
  core.resolve = [manager = shell->manager_.get()](const std::string& adapter, const Address& remote) {
    return manager->Resolve(adapter, remote);
  };
  core.leases = shell->leases_.Start([&core](const std::string& name) {
    return std::any_of(core.adapters.begin(), core.adapters.end(),
                       [&](const auto& adapter) { return adapter.info.name == name; });
  });
  shell->away_ = AwayListeners(core.leases);
  if (!shell->away_.empty()) {
    const Time until = loop.clock().Now() + std::min(kListenersReturn, shell->leases_.grace());
    shell->away_timer_ = loop.At(until, [shell = shell.get()] {
      shell->away_timer_.reset();
      shell->Resume(shell->away_.GiveUp());
    });
  }
  core.leases_until = loop.clock().Now() + shell->leases_.grace();
  core.may_come_back = state::MayComeBack;
  core.grace = shell->leases_.grace();
  core.owner_uid = os::EffectiveUserNumber();
  const auto key = std::make_shared<const state::ReattachKey>(given.directory, state::BootId());
  if (!key->problem().empty()) ops::LogWarning("reattach key", key->problem());
  core.spares = shell.get();
  core.prove = [key](const core::ConnectionFacts& facts) { return key->Prove(facts); };
  shell->core_ = std::make_unique<core::Broker>(std::move(core));
  shell->OnAdaptersChanged();  // Reports unusable adapters once at the start, too.
  shell->ArmTimer();
  return shell;
}

BrokerShell::~BrokerShell() {
  if (timer_) loop_.Cancel(*timer_);
  if (away_timer_) loop_.Cancel(*away_timer_);
  for (auto& [number, entry] : retiring_) loop_.Cancel(entry.first);
  for (auto& [network, served] : networks_) {
    if (served.closing) loop_.Cancel(*served.closing);
  }
  for (auto& [id, session] : sessions_) {
    if (session->hello_timer) loop_.Cancel(*session->hello_timer);
  }
}

void BrokerShell::Run(core::Event&& event) {
  if (running_ || adapters_changed_ || !events_.empty()) {
    events_.Push(std::move(event));
  } else {
    running_ = true;
    Step(event);
    running_ = false;
  }
  if (!running_) Drain();
}

void BrokerShell::Step(const core::Event& event) {
  actions_.clear();
  core_->Step(loop_.clock().Now(), event, &actions_);
  for (core::Action& action : actions_) std::visit([this](auto& what) { Do(what); }, action);
}

void BrokerShell::Reserve(core::ReservePort event, std::function<void(const Status&)> done) {
  event.request = ++last_reserve_;
  reserving_.emplace(event.request, std::move(done));
  Run(std::move(event));
}

void BrokerShell::Do(core::ReserveDone& action) {
  const auto waiting = reserving_.extract(action.request);
  if (waiting) waiting.mapped()(action.status);
}

void BrokerShell::Queue(core::Event event) {
  events_.Push(std::move(event));
  if (running_ || drain_posted_) return;
  // The caller is the connection manager in the middle of its own work, so commands must not re-enter it.
  drain_posted_ = true;
  loop_.Post([this] {
    drain_posted_ = false;
    if (!running_) Drain();
  });
}

void BrokerShell::Drain() {
  running_ = true;
  while (adapters_changed_ || !events_.empty()) {
    Step(std::exchange(adapters_changed_, false) ? core::AdaptersChanged{manager_->adapters()}
                                                 : events_.Take());
  }
  running_ = false;
  ArmTimer();
  if (core_->reclaiming()) PostReclaim();
}

void BrokerShell::PostReclaim() {
  if (reclaim_posted_ || stopped_) return;
  reclaim_posted_ = true;
  loop_.PostFor(Account::kReclaiming, [this] {
    reclaim_posted_ = false;
    if (stopped_) return;
    const Time began = loop_.clock().Now();
    Run(core::ReclaimSome{reclaim_pace_.slice()});
    reclaim_pace_.Took(loop_.clock().Now() - began);
    ForgetEnded();
  });
}

void BrokerShell::ArmTimer() {
  const std::optional<Time> due = core_->NextDeadline();
  // An earlier timer finds nothing due and arms the next one. Most deadlines are withdrawn before they come.
  if (!due || (timer_ && timer_due_ <= *due)) return;
  if (timer_) loop_.Cancel(*timer_);
  timer_due_ = *due;
  timer_ = loop_.At(*due, [this] {
    timer_.reset();
    Run(core::Tick{});
  });
}

void BrokerShell::Do(core::Complete& action) {
  ClientSession* session = Find(action.session);
  if (session == nullptr) return;
  if (const auto pending = session->pending.Take(action.op_id)) {
    DropGiven(*session, action.op_id);
    const Duration took = loop_.clock().Now() - pending->since;
    NDB_PROBE(operation_end, action.session, action.op_id, pending->kind, action.status.code(), took.count());
    for (RecordSink* const sink : record_sinks_) sink->OnOperation(pending->kind, action.status, took);
  }
  EndIf(action.session, session->Send(static_cast<const session::Completion&>(action)));
}

void BrokerShell::Do(core::Notice& action) {
  action.object = NoticeObject(action.type, action.object);
  if (action.level == core::Notice::Level::kWarning) {
    ops::LogWarning(action.type,
                    action.object.empty() ? action.message : action.object + ": " + action.message,
                    {action.type, action.object});
  } else {
    ops::LogDebug([&action] { return std::string(action.type) + " " + action.object + " " + action.message; },
                  {action.type, action.object});
  }
  hub_.Publish(action.type, std::move(action.object), std::move(action.message));
}

void BrokerShell::Apply(const Config& config) {
  Run(core::SettingsChanged{config.core, core::Policy(config.rules)});
}

void BrokerShell::Do(core::CmListen& action) {
  manager_->Listen(action.endpoint, action.adapter, action.local);
  Resume(away_.Back(action.adapter, action.local));
}
void BrokerShell::Resume(std::vector<provider::InboundRequest> requests) {
  for (provider::InboundRequest& request : requests) Queue(core::CmRequested{std::move(request)});
}
void BrokerShell::Do(core::CmConnect& action) {
  NDB_PROBE(handshake_request, action.params.id, action.params.owner_pid);
  UniqueFd given = TakeGiven(action.session, action.op_id);
  if (given) return manager_->ConnectFrom(action.params, std::move(given));
  manager_->Connect(action.params);
}
void BrokerShell::Do(core::CmAccept& action) {
  NDB_PROBE(handshake_accept, action.id, action.params.owner_pid);
  manager_->Accept(action.id, action.params);
}
void BrokerShell::Do(core::CmReject& action) {
  NDB_PROBE(handshake_reject, action.id, action.detail);
  manager_->Reject(action.id, action.detail, action.private_data);
}
void BrokerShell::Do(core::CmConfirm& action) {
  NDB_PROBE(handshake_confirm, action.id);
  manager_->Confirm(action.id);
}

void BrokerShell::Do(core::ConnectionRecord& record) {
  if (record.outcome == core::ConnectionRecord::Outcome::kEstablished) {
    NDB_PROBE(connection_established, record.id.value, record.session, record.passive,
              (loop_.clock().Now() - record.phases.began).count());
  } else {
    NDB_PROBE(connection_end, record.id.value, record.session, record.outcome, record.why.code(),
              record.why.detail());
  }
  if (record_sinks_.empty()) return;
  const std::string_view transport = LinkOf(record.id).transport;
  Traffic traffic;
  if (record.counter_slot) traffic = TrafficOf(record.session, *record.counter_slot).value_or(Traffic{});
  for (RecordSink* const sink : record_sinks_) sink->OnRecord(record, transport, traffic);
}

std::optional<Traffic> BrokerShell::TrafficOf(core::SessionId id, std::uint32_t slot) const {
  if (const auto it = sessions_.find(id); it != sessions_.end()) return it->second->pages.Read(slot);
  // The connections of a session are reported after its end.
  for (const std::unique_ptr<ClientSession>& session : ended_) {
    if (session->id() == id) return session->pages.Read(slot);
  }
  return std::nullopt;
}

std::uint64_t BrokerShell::pending_operations() const {
  std::uint64_t all = 0;
  for (const auto& [id, session] : sessions_) all += session->pending.size();
  return all;
}

Regions BrokerShell::RegionsOf(core::SessionId id) const {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? Regions{} : it->second->pages.ReadRegions();
}

BrokerShell::Link BrokerShell::LinkOf(core::Handle connector) const {
  const auto it = links_.find(connector.slot());
  return it != links_.end() && it->second.connector == connector ? it->second : Link{};
}

void BrokerShell::OnReserved(provider::EndpointId endpoint, const Status& status) {
  Queue(core::CmReserved{endpoint, status});
}
void BrokerShell::OnRequest(const provider::InboundRequest& request) {
  NDB_PROBE(handshake_incoming, request.id, request.local.port(), request.remote.port());
  if (!away_.Hold(request)) Queue(core::CmRequested{request});
}
void BrokerShell::OnReached(provider::CmId id) {
  NDB_PROBE(handshake_reached, id);
  Queue(core::CmReached{id});
}
void BrokerShell::OnReply(provider::CmId id, bool limits_known, const ReadLimits& peer,
                          const provider::Bytes& data) {
  NDB_PROBE(handshake_reply, id);
  Queue(core::CmReplied{id, limits_known, peer, data});
}
void BrokerShell::OnRejected(provider::CmId id, const Status& status, const provider::Bytes& data) {
  NDB_PROBE(handshake_rejected, id, status.code(), status.detail());
  Queue(core::CmRejected{id, status, data});
}
void BrokerShell::OnFailed(provider::CmId id, const Status& status) {
  NDB_PROBE(handshake_failed, id, status.code(), status.detail());
  Queue(core::CmFailed{id, status});
}
void BrokerShell::OnPrepare(provider::CmId id, const provider::Bytes& attributes) {
  Queue(core::CmPrepare{id, attributes});
}
void BrokerShell::OnEstablished(provider::CmId id) {
  NDB_PROBE(handshake_up, id);
  Queue(core::CmEstablished{id});
}
void BrokerShell::OnLost(provider::CmId id, const Status& status, const provider::Bytes& data) {
  NDB_PROBE(handshake_lost, id, status.code(), status.detail());
  if (away_.Forget(id)) return;
  Queue(core::CmLost{id, status, data});
}
void BrokerShell::OnPeerClosed(provider::CmId id, DisconnectReason reason) {
  if (away_.Forget(id)) return;
  Queue(core::CmPeerClosed{id, reason});
}
void BrokerShell::OnDisconnected(provider::CmId id, const Status& status) {
  Queue(core::CmDisconnected{id, status});
}
void BrokerShell::OnAcceptError(int error) {
  doors_[kPeersDoor].Fail(error);
  ops::LogWarning("accept failed", std::string("a peer's connection: ") + os::ErrorText(error));
}

void BrokerShell::OnAdaptersChanged() {
  // The connection manager reports while the core is being made; its first list is requested afterwards.
  if (core_ == nullptr) return;
  adapters_changed_ = true;
  if (running_ || drain_posted_) return;
  drain_posted_ = true;
  loop_.Post([this] {
    drain_posted_ = false;
    if (!running_) Drain();
  });
}

}  // namespace nd::service
