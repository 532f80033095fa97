// SPDX-License-Identifier: Apache-2.0
// Does the work of the shell of the daemon without threads, sockets or gRPC, and dies on request.
#include "tests/sim/host.h"

#include <utility>

namespace nd::sim {
namespace {

using core::SessionId;
constexpr Duration kPatienceWithReaders = std::chrono::seconds(5);
// Keeps torn brokers reachable, so that their memory is not reported as leaked.
std::vector<std::unique_ptr<core::Broker>>& TornBrokers() {
  static auto* const all = new std::vector<std::unique_ptr<core::Broker>>;
  return *all;
}

constexpr char kBoot[] = "01234567-89ab-cdef-0123-456789abcdef";

}  // namespace

Host::Host(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric, Observer& observer)
    : options_(std::move(options)),
      schedule_(schedule),
      dice_(dice),
      net_(net),
      fabric_(fabric),
      observer_(observer),
      memory_(
          dice, faults.no_memory, [this] { return observer_.Broken("outlive-shortage"); },
          [this](bool met) { OnShortage(met); }) {}

Host::~Host() = default;

void Host::Start() {
  ++epoch_;
  ++life_;
  last_session_ = 0;
  memory_.Revive();
  cm_ = std::make_unique<HostCm>(options_.cm, schedule_, dice_, net_, fabric_, *this, memory_);
  core::Broker::Options core;
  core.boot_epoch = epoch_;
  core.seed = options_.seed + epoch_;
  core.settings = options_.settings;
  core.reclaim_slice = options_.reclaim_slice;
  core.policy = options_.policy;
  core.adapters = cm_->adapters();
  state::Journal::Options journal;
  journal.boot = kBoot;
  journal_ =
      std::make_unique<state::Journal>(std::make_unique<SimMedium>(disk_, memory_), std::move(journal));
  leases_ = journal_->Start(
      schedule_.now(), [this](const core::Lease& lease) { return observer_.IsAlive(*this, lease.holder); });
  leases_until_ = schedule_.now() + kReclaimGrace;
  core.leases = leases_;
  core.leases_until = leases_until_;
  core.grace = kReclaimGrace;
  core.prove = [this](const core::ConnectionFacts& facts) { return Prove(facts); };
  core.resolve = [cm = cm_.get()](const std::string& adapter, const Address& remote) {
    return cm->Resolve(adapter, remote);
  };
  broker_ = std::make_unique<core::Broker>(std::move(core));
  observer_.OnStart(*this);
  OnAdaptersChanged();  // As in the daemon: the adapters are examined once at start, too.
  ArmTimer();
}

provider::Bytes Host::Prove(const core::ConnectionFacts& facts) const {
  const std::string text = std::to_string(number()) + facts.adapter + facts.local.ToString() +
                           facts.remote.ToString() + (facts.passive ? "p" : "a") + std::to_string(facts.uid);
  return {text.begin(), text.end()};
}

void Host::Stop() {
  if (!up() || running_) return;
  Run(core::Stopping{});
  if (!up()) return;  // The broker died while it stopped.
  journal_->Stop(schedule_.now());
  cm_->Stop();
  CrashNow();
}

std::vector<core::Lease> Host::JournaledLeases() const {
  return state::Recover(disk_->image, kBoot).leases;
}

void Host::Crash() {
  if (!up()) return;
  crash_wanted_ = true;
  if (!running_) CrashNow();
}

void Host::CrashNow() {
  crash_wanted_ = false;
  running_ = reclaim_posted_ = false;
  events_.clear();
  adapters_changed_ = false;
  if (timer_) schedule_.Cancel(*timer_);
  timer_.reset();
  ++life_;
  observer_.OnCrash(*this);
  // Hash tables are not valid after an exception. The torn broker is kept and not destroyed, as in a process
  // that ends.
  if (memory_.torn()) TornBrokers().push_back(std::move(broker_));
  broker_.reset();
  journal_.reset();
  cm_.reset();
  for (auto& [id, session] : sessions_) {
    Send(*session, SessionOver{true});
    Send(*session, SessionOver{true}, true);
    over_[session->token] = std::move(session);
  }
  sessions_.clear();
}

Token Host::Open(Client& client, const core::Identity& identity) {
  if (!up()) return 0;
  const SessionId id{++last_session_};
  auto session = std::make_unique<Session>();
  session->client = &client;
  session->token = ++last_token_;
  session->id = id;
  session->delay = dice_.Micros(5, dice_.Chance(100) ? 20000 : 300);
  const Token token = session->token;
  clients_[token] = &client;
  sessions_[id] = std::move(session);
  Run(core::SessionOpened{id, identity});
  return token;
}

std::optional<SessionId> Host::SessionOf(Token token) const {
  for (const auto& [id, session] : sessions_) {
    if (session->token == token) return id;
  }
  return std::nullopt;
}

void Host::Submit(Token token, core::OpId op_id, const session::Operation& op) {
  const std::optional<SessionId> id = SessionOf(token);
  if (!id) return;
  Session& session = *sessions_.at(*id);
  session.last_in = std::max(session.last_in, schedule_.now() + session.delay + dice_.Micros(0, 50));
  const auto arrive = [this, token, op_id, op] {
    if (const std::optional<SessionId> to = SessionOf(token)) Run(core::ClientOp{*to, op_id, op});
  };
  schedule_.At(session.last_in, arrive);
  if (!dice_.Chance(faults.duplicate)) return;
  observer_.OnDuplicate(*this);
  schedule_.At(session.last_in + dice_.Millis(0, 300), arrive);
}

void Host::HangUp(Token token) {
  const std::optional<SessionId> id = SessionOf(token);
  if (!id) return;
  Session& session = *sessions_.at(*id);
  session.last_in = std::max(session.last_in, schedule_.now() + session.delay);
  schedule_.At(session.last_in, [this, token] {
    if (const std::optional<SessionId> gone = SessionOf(token)) EndSession(*gone, {});
  });
}

void Host::Admin(core::Event event) {
  if (up()) Run(std::move(event));
}

Host::Session* Host::Find(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second.get();
}

void Host::EndSession(SessionId id, const Status& why) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
  Send(*session, SessionOver{false});
  Send(*session, SessionOver{false}, true);
  over_[session->token] = std::move(session);
  Run(core::SessionClosed{id, why});
}

void Host::Send(Session& session, Message message, bool lane) {
  Time& last = lane ? session.last_lane : session.last_out;
  last = std::max(last, schedule_.now() + session.delay + dice_.Micros(0, lane ? 2000 : 100));
  schedule_.At(last, [this, token = session.token, message = std::move(message)]() mutable {
    Arrive(token, std::move(message));
  });
}

void Host::Arrive(Token token, Message message) {
  Client& client = *clients_.at(token);
  if (client.Reads()) return client.OnMessage(token, std::move(message));
  const std::optional<SessionId> id = SessionOf(token);
  Session& session = id ? *sessions_.at(*id) : *over_.at(token);
  session.unread.push_back(std::move(message));
  if (!id || session.watched) return;
  session.watched = true;
  schedule_.After(kPatienceWithReaders, [this, token] {
    const std::optional<SessionId> still = SessionOf(token);
    if (!still) return;
    Session& s = *sessions_.at(*still);
    s.watched = false;
    if (s.unread.empty()) return;
    observer_.OnSilence(*this);
    EndSession(*still, {StatusCode::kIoTimeout, "it takes no answer"});
  });
}

void Host::Readable(Token token) {
  const std::optional<SessionId> id = SessionOf(token);
  const auto over = over_.find(token);
  if (!id && over == over_.end()) return;
  Session& session = id ? *sessions_.at(*id) : *over->second;
  std::deque<Message> unread = std::exchange(session.unread, {});
  Client& client = *clients_.at(token);
  for (Message& message : unread) client.OnMessage(token, std::move(message));
}

void Host::Run(core::Event event) {
  events_.push_back(std::move(event));
  if (!running_) Drain();
}

void Host::Queue(core::Event event) {
  events_.push_back(std::move(event));
  if (running_ || drain_posted_) return;
  drain_posted_ = true;
  schedule_.After(Duration{}, [this] {
    drain_posted_ = false;
    if (!running_ && up()) Drain();
  });
}

void Host::Drain() {
  running_ = true;
  while (!crash_wanted_ && (adapters_changed_ || !events_.empty())) {
    if (!observer_.BeforeStep()) break;
    core::Event event;
    if (std::exchange(adapters_changed_, false)) {
      event = core::AdaptersChanged{cm_->adapters()};
    } else {
      event = std::move(events_.front());
      events_.pop_front();
    }
    core::Actions actions;
    WearDisk();
    const bool done = memory_.Survives([&] { broker_->Step(schedule_.now(), event, &actions); });
    if (!done && crash_wanted_) break;
    observer_.InjectFault(&actions);
    observer_.AfterStep(*this, event, actions);
    for (core::Action& action : actions) {
      if (dice_.Chance(faults.crash)) crash_wanted_ = true;
      if (crash_wanted_) break;
      std::visit([this](auto& what) { Do(what); }, action);
    }
  }
  running_ = false;
  if (crash_wanted_) return CrashNow();
  ArmTimer();
  if (!broker_->reclaiming() || reclaim_posted_) return;
  reclaim_posted_ = true;
  // Events that arrived earlier are applied first.
  schedule_.After(dice_.Micros(1, 2000), [this, life = life_] {
    if (life != life_) return;
    reclaim_posted_ = false;
    Run(core::ReclaimSome{dice_.Chance(300) ? 1 + dice_.Below(64) : 0});
  });
}

void Host::ArmTimer() {
  const std::optional<Time> due = broker_->NextDeadline();
  if (timer_ && due && timer_->first == *due) return;
  if (timer_) schedule_.Cancel(*timer_);
  timer_.reset();
  if (!due) return;
  timer_ = schedule_.At(*due, [this] {
    timer_.reset();
    Run(core::Tick{});
  });
}

void Host::WearDisk() {
  if (faults.journal_fails == 0) {
    disk_->full = false;
    disk_->tear_at = 0;
  } else if (disk_->full) {
    disk_->full = !dice_.Chance(100);
  } else if (dice_.Chance(faults.journal_fails)) {
    disk_->full = dice_.Chance(500);
    if (!disk_->full) disk_->tear_at = 1 + dice_.Below(state::kRecordSize);
  }
  if (journal_->retry_at() && *journal_->retry_at() <= schedule_.now()) journal_->Retry(schedule_.now());
}

void Host::OnShortage(bool met) {
  observer_.OnShortage(*this, met);
  crash_wanted_ = true;
  if (running_) return;  // Drain() then kills the broker. Otherwise it is killed now.
  schedule_.After(Duration{}, [this, life = life_] {
    if (life == life_ && crash_wanted_ && !running_) CrashNow();
  });
}

void Host::Do(core::HandOffTo& action) {
  Session* const session = Find(action.session);
  if (session == nullptr) return;
  Result<HostCm::Transport> taken = cm_->Take(action.id);
  if (memory_.gone()) return;
  if (!taken.ok()) return EndSession(action.session, taken.status());
  HandOffMessage message{action.hand_off, action.connector, *taken};
  message.transport.record.connector = action.connector.value;
  message.transport.record.id = action.hand_off;
  message.transport.record.read_inbound = action.limits.inbound;
  message.transport.record.read_outbound = action.limits.outbound;
  const EndId end = message.transport.end;
  if (dice_.Chance(faults.lane_fails)) {
    // The datagram was not sent; its descriptor is closed, which resets the connection.
    if (end != 0 && !observer_.Broken("leak-failed-hand-off")) net_.Close(end, true);
    observer_.OnLostHandOff(*this);
    return EndSession(action.session, {StatusCode::kInsufficientResources, "the lane is closed"});
  }
  if (end != 0) net_.SetOwner(end, Owner::kMessage, options_.number);
  Send(*session, message, true);
}

template <typename Other>
void Host::Do(Other& action) {
  using T = Other;
  if constexpr (std::is_same_v<T, core::CmReserve>) {
    cm_->Reserve(action.endpoint, action.adapter, action.local);
  } else if constexpr (std::is_same_v<T, core::CmRelease>) {
    if (!observer_.Broken("forget-release")) cm_->Release(action.endpoint);
  } else if constexpr (std::is_same_v<T, core::CmListen>) {
    cm_->Listen(action.endpoint);
  } else if constexpr (std::is_same_v<T, core::CmUnlisten>) {
    cm_->Unlisten(action.endpoint);
  } else if constexpr (std::is_same_v<T, core::CmConnect>) {
    cm_->Connect(action.params);
  } else if constexpr (std::is_same_v<T, core::CmAccept>) {
    cm_->Accept(action.id, action.params);
  } else if constexpr (std::is_same_v<T, core::CmReject>) {
    if (!observer_.Broken("forget-reject")) cm_->Reject(action.id, action.detail, action.private_data);
  } else if constexpr (std::is_same_v<T, core::CmConfirm>) {
    cm_->Confirm(action.id);
  } else if constexpr (std::is_same_v<T, core::CmPrepared>) {
    cm_->Prepared(action.id, action.status);
  } else if constexpr (std::is_same_v<T, core::CmAbort>) {
    cm_->Abort(action.id);
  } else if constexpr (std::is_same_v<T, core::CmDisconnect>) {
    cm_->Disconnect(action.id);
  } else if constexpr (std::is_same_v<T, core::EndSession>) {
    EndSession(action.session, action.why);
  } else if constexpr (std::is_same_v<T, core::LeaseTaken>) {
    memory_.Survives([&] { journal_->Taken(schedule_.now(), action.lease); });
  } else if constexpr (std::is_same_v<T, core::LeaseFreed>) {
    if (observer_.Broken("forget-lease-end")) return;
    memory_.Survives([&] { journal_->Freed(schedule_.now(), action.adapter, action.local); });
  } else if constexpr (!std::is_same_v<T, core::Notice> && !std::is_same_v<T, core::ConnectionRecord> &&
                       !std::is_same_v<T, core::ReserveDone>) {
    if (Session* const session = Find(action.session)) Send(*session, Message(action));
  }
}

void Host::OnReserved(provider::EndpointId endpoint, const Status& status) {
  Queue(core::CmReserved{endpoint, status});
}
void Host::OnRequest(const provider::InboundRequest& request) {
  Queue(core::CmRequested{request});
}
void Host::OnReached(provider::CmId id) {
  Queue(core::CmReached{id});
}
void Host::OnReply(provider::CmId id, bool known, const ReadLimits& peer, const Bytes& data) {
  Queue(core::CmReplied{id, known, peer, data});
}
void Host::OnRejected(provider::CmId id, const Status& status, const Bytes& data) {
  Queue(core::CmRejected{id, status, data});
}
void Host::OnFailed(provider::CmId id, const Status& status) {
  Queue(core::CmFailed{id, status});
}
void Host::OnPrepare(provider::CmId id, const Bytes& attributes) {
  Queue(core::CmPrepare{id, attributes});
}
void Host::OnEstablished(provider::CmId id) {
  Queue(core::CmEstablished{id});
}
void Host::OnLost(provider::CmId id, const Status& status, const Bytes& data) {
  Queue(core::CmLost{id, status, data});
}
void Host::OnPeerClosed(provider::CmId id, DisconnectReason reason) {
  Queue(core::CmPeerClosed{id, reason});
}
void Host::OnDisconnected(provider::CmId id, const Status& status) {
  Queue(core::CmDisconnected{id, status});
}
void Host::OnAdaptersChanged() {
  adapters_changed_ = true;
  if (running_ || drain_posted_) return;
  drain_posted_ = true;
  schedule_.After(Duration{}, [this] {
    drain_posted_ = false;
    if (!running_ && up()) Drain();
  });
}

}  // namespace nd::sim
