// SPDX-License-Identifier: Apache-2.0
// The run: build from the seed, act, check after each step, clean up, count.
#include "tests/sim/world.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace nd::sim {
namespace {

constexpr Duration kRestAfter = std::chrono::minutes(20);

Address Ip(const std::string& text) {
  return Address::Parse(text).value();
}

}  // namespace

World::World(WorldOptions options, Coverage& coverage)
    : options_(std::move(options)),
      coverage_(coverage),
      dice_(options_.seed),
      trace_(options_.trace),
      net_(schedule_, dice_),
      fabric_(schedule_, dice_),
      common_{schedule_, dice_, net_, hosts_},
      foreign_(schedule_, dice_, net_, static_cast<int>(2 + options_.seed % 4)) {
  common_.violation = [this](const std::string& what) { Violation(what); };
  common_.saw = [this](const char* what) { coverage_.Saw("harness", what); };
}

World::~World() = default;

core::Settings World::MakeSettings() {
  core::Settings s;
  s.max_backlog = dice_.Between(1, 4);
  s.max_handshakes_in_flight = dice_.Between(1, 24);
  s.ephemeral_first = 50000;
  s.ephemeral_last = static_cast<std::uint16_t>(50000 + dice_.Between(4, 60));
  s.privileged_ports_below = dice_.Chance(200) ? std::uint16_t{7001} : std::uint16_t{0};
  if (dice_.Chance(300)) s.establish_timeout = dice_.Millis(500, 10000);
  s.accept_refused_on_reject = dice_.Chance(300);
  s.allow_same_owner_bind_sharing = dice_.Chance(400);
  s.bad_network_name = dice_.Chance(300);
  s.notify_success_on_local_disconnect = dice_.Chance(300);
  s.flush_on_peer_disconnect = dice_.Chance(300);
  return s;
}

core::Policy World::MakePolicy() {
  if (dice_.Chance(500)) return {};
  std::vector<core::Rule> rules(3);
  rules[0].name = "narrow";
  rules[0].uid = 1001;
  rules[0].listen = std::vector<core::Prefix>{{Ip("10.0.0.0"), 8, 7000, 7000}};
  if (dice_.Chance(500)) rules[0].connect = std::vector<core::Prefix>{{Ip("10.0.0.0"), 15, 0, 65535}};
  rules[1].name = "poor";
  rules[1].uid = 1002;
  rules[1].limits.connectors = dice_.Between(1, 6);
  rules[1].limits.listeners = dice_.Between(0, 2);
  rules[1].limits.queue_pairs = dice_.Between(1, 6);
  rules[1].limits.shared_endpoints = dice_.Between(0, 2);
  rules[1].limits.ports = dice_.Between(1, 5);
  if (dice_.Chance(300)) rules[1].limits.sessions = dice_.Between(1, 3);
  rules[2].name = "all";
  rules[2].limits.connectors = 60;
  return core::Policy(std::move(rules));
}

void World::Build() {
  const std::uint32_t hosts = static_cast<std::uint32_t>(2 + options_.seed % 4);
  const auto maybe = [&](std::uint32_t often, std::uint32_t low, std::uint32_t high) {
    return dice_.Chance(often) ? dice_.Between(low, high) : 0u;
  };
  net_.faults.slow = maybe(700, 1, 200);
  net_.faults.shredded = maybe(700, 1, 800);
  net_.faults.reset = maybe(600, 1, 120);
  net_.faults.blackhole = maybe(500, 1, 60);
  net_.faults.lost_syn = maybe(500, 1, 60);
  net_.faults.unreachable = maybe(500, 1, 60);
  net_.faults.shaken = maybe(400, 1, 20);
  fabric_.loss = maybe(500, 1, 60);
  crash_chance_ = maybe(600, 1, 5);
  for (std::uint32_t h = 0; h < hosts; ++h) {
    const std::string n = std::to_string(h);
    Host::Options options;
    options.number = static_cast<int>(h);
    options.cm.host = static_cast<int>(h);
    provider::soft::AdapterOptions separate, tcp;
    separate.name = "a0";
    separate.addresses = {Ip("10.0." + n + ".1"), Ip("10.0." + n + ".2"), Ip("fd00::" + n + "1")};
    separate.crc = dice_.Chance(700);
    separate.max_inbound_read_limit = dice_.Between(0, 32);
    separate.max_outbound_read_limit = dice_.Between(0, 32);
    tcp.name = "a1";
    tcp.addresses = {Ip("10.1." + n + ".1")};
    tcp.tcp_mode = true;
    tcp.crc = dice_.Chance(700);
    tcp.max_inbound_read_limit = dice_.Between(0, 128);
    tcp.max_outbound_read_limit = dice_.Between(0, 128);
    options.cm.soft.adapters = {separate, tcp};
    options.cm.device = "v0";
    options.cm.device_addresses = {Ip("10.2." + n + ".1")};
    options.cm.device_limits_tight = dice_.Chance(300);
    options.cm.tcp = {.refused = maybe(700, 1, 40),
                      .stale = maybe(700, 1, 300),
                      .late = maybe(500, 1, 500),
                      .partial = maybe(600, 1, 500),
                      .exhausted = maybe(300, 1, 100),
                      .unsendable = maybe(300, 1, 20)};
    if (dice_.Chance(300)) options.cm.soft.max_half_open = dice_.Between(1, 4);
    options.settings = MakeSettings();
    options.reclaim_slice = dice_.Between(1, 6);
    options.policy = MakePolicy();
    options.seed = dice_.Next();
    hosts_.push_back(std::make_unique<Host>(std::move(options), schedule_, dice_, net_, fabric_, *this));
    HostFaults& faults = hosts_.back()->faults;
    faults.crash = maybe(400, 1, 3);
    faults.lane_fails = maybe(400, 1, 100);
    faults.duplicate = maybe(500, 1, 100);
    faults.journal_fails = maybe(400, 1, 20);
    faults.no_memory = maybe(300, 1, 2);
  }
  watchers_.resize(hosts);
  for (const std::unique_ptr<Host>& host : hosts_) host->Start();
  foreign_.Start();
  std::uint32_t number = 0;
  constexpr const char* kAdapters[] = {"a0", "a0", "a1", "a1", "v0"};
  for (std::uint32_t h = 0; h < hosts; ++h) {
    const std::uint32_t apps = dice_.Between(3, 6);
    for (std::uint32_t i = 0; i < apps; ++i) {
      App::Options options;
      options.host = static_cast<int>(h);
      options.manners = dice_.Chance(400)   ? Manners::kHonest
                        : dice_.Chance(320) ? Manners::kHostile
                                            : static_cast<Manners>(dice_.Below(kMannersCount));
      options.server = i < 2 || dice_.Chance(300);
      options.uid = dice_.Chance(30) ? 0 : 1000 + dice_.Below(3);
      options.adapter = i == 0 ? "a0" : kAdapters[dice_.Below(5)];
      options.port = static_cast<std::uint16_t>(7000 + dice_.Below(2));
      options.foreign_network = dice_.Chance(20);
      apps_.push_back(std::make_unique<App>(common_, options, number++));
      schedule_.After(dice_.Millis(0, 20), [app = apps_.back().get()] { app->Start(); });
    }
  }
  schedule_.After(std::chrono::milliseconds(1), [this] { Turn(); });
}

void World::Turn() {
  if (common_.winding_down) return;
  if (dice_.Chance(900)) {
    dice_.Pick(apps_)->Act();
  } else if (dice_.Chance(450)) {
    foreign_.Act();
  } else {
    Administrate();
  }
  const bool lull = dice_.Chance(15);
  schedule_.After(lull ? dice_.Millis(500, 12000) : dice_.Micros(100, 30000), [this] { Turn(); });
}

void World::Administrate() {
  Host& host = *dice_.Pick(hosts_);
  switch (dice_.Below(14)) {
    case 0:
    case 1: {
      if (!host.up()) return;
      const auto rows = host.broker().Connections();
      if (rows.empty()) return host.Admin(core::KillConnection{core::Handle{dice_.Next()}});
      return host.Admin(core::KillConnection{rows[dice_.Below(static_cast<std::uint32_t>(rows.size()))].id});
    }
    case 2:
      return host.Admin(core::KillSession{core::SessionId{1 + dice_.Below(20)}});
    case 3: {
      if (!host.up()) return;
      const auto rows = host.broker().Listeners();
      if (rows.empty()) return;
      const core::Handle listener = rows[dice_.Below(static_cast<std::uint32_t>(rows.size()))].id;
      host.Admin(core::PauseListener{listener, true});
      schedule_.After(dice_.Millis(10, 2000), [&host, listener] {
        host.Admin(core::PauseListener{listener, false});
      });
      return;
    }
    case 4: {
      constexpr const char* kNames[] = {"a0", "a1", "v0"};
      const std::string name = kNames[dice_.Below(3)];
      host.Admin(core::SetAdapter{name, false});
      schedule_.After(dice_.Millis(1, 3000), [&host, name] { host.Admin(core::SetAdapter{name, true}); });
      return;
    }
    case 5: {
      if (!host.up()) return;
      const std::string name = dice_.Chance(500) ? "a1" : "v0";
      host.cm().Hide(name, true);
      schedule_.After(dice_.Millis(1, 3000), [&host, name] {
        if (host.up()) host.cm().Hide(name, false);
      });
      return;
    }
    case 6: {
      core::Settings settings = host.options().settings;
      settings.max_backlog = dice_.Between(1, 5);
      settings.max_handshakes_in_flight = dice_.Between(1, 24);
      settings.ephemeral_last = static_cast<std::uint16_t>(50000 + dice_.Between(4, 60));
      host.mutable_options().settings = settings;
      host.mutable_options().policy = MakePolicy();
      return host.Admin(core::SettingsChanged{settings, host.options().policy});
    }
    case 7: {
      coverage_.Saw("harness", "clock jump");
      const Duration by = dice_.Millis(1, 20000);
      for (Watcher& watcher : watchers_) watcher.jumped = std::max(watcher.jumped, by);
      return schedule_.Jump(by);
    }
    case 8:
    case 9:
      if (crash_chance_ == 0) return;
      return host.Crash();
    case 10:
      if (!dice_.Chance(300) || !host.up()) return;
      coverage_.Saw("harness", "broker stop");
      return host.Stop();
    case 11: {
      host.Admin(core::SetDraining{true});
      schedule_.After(dice_.Millis(1, 2000), [&host] { host.Admin(core::SetDraining{false}); });
      return;
    }
    case 12: {
      const std::string n = std::to_string(host.number());
      const Address at = Ip(dice_.Chance(300) ? "0.0.0.0" : "10.0." + n + ".1")
                             .WithPort(static_cast<std::uint16_t>(
                                 dice_.Chance(500) ? 6000 + dice_.Below(4) : 50000 + dice_.Below(8)));
      std::optional<std::uint32_t> uid;
      if (dice_.Chance(500)) uid = 1000 + dice_.Below(3);
      host.Admin(core::ReservePort{at, uid, "for later"});
      schedule_.After(dice_.Millis(1, 5000), [&host, at] { host.Admin(core::ReleasePort{at}); });
      return;
    }
    default: {
      // A report that the core does not expect: late, unknown, or out of order.
      const provider::CmId id{dice_.Chance(500) ? provider::kInboundBit | (1 + dice_.Below(300))
                                                : std::uint64_t{1} + dice_.Below(300)};
      // Reports about a live attempt must be true.
      if (watchers_[static_cast<std::size_t>(host.number())].ledger.wire.contains(id)) return;
      if (dice_.Chance(500)) return host.Admin(core::CmPeerClosed{id, DisconnectReason::kPeerBrokerLost});
      return host.Admin(core::CmReplied{id, true, {99, 99}, {1}});
    }
  }
}

bool World::BeforeStep() {
  if (stopped_ || !violation_.empty()) return false;
  if (options_.until != 0 && steps_ >= options_.until) {
    stopped_ = true;
    return false;
  }
  ++steps_;
  return true;
}

void World::OnShortage(Host& host, bool met) {
  coverage_.Saw("harness", met ? "allocation failed" : "fewer allocations than that");
  trace_.Line("host " + std::to_string(host.number()) + " gets no memory");
}

bool World::Broken(const char* name) {
  return options_.mistakes.contains(name);
}

bool World::IsAlive(const Host& host, const core::Process& process) {
  if (process.pid == 0) return true;  // The lease belongs to a user.
  return std::ranges::any_of(apps_, [&](const std::unique_ptr<App>& app) {
    return app->options().host == host.number() && app->Is(process);
  });
}

void World::InjectFault(core::Actions* actions) {
  if (options_.mistakes.empty()) return;
  for (std::size_t i = 0; i < actions->size(); ++i) {
    core::Action& action = (*actions)[i];
    if (auto* complete = std::get_if<core::Complete>(&action)) {
      // Rare, so that the run makes progress first.
      if (complete->op_id % 97 != 0) continue;
      if (Broken("swallow-completion")) {
        actions->erase(actions->begin() + static_cast<std::ptrdiff_t>(i));
        return;
      }
      if (Broken("double-completion")) {
        actions->push_back(*complete);
        return;
      }
      if (Broken("old-handle") && complete->reply.handle)
        complete->reply.handle.value ^= std::uint64_t{1} << 50;
    } else if (auto* accept = std::get_if<core::CmAccept>(&action)) {
      if (Broken("greedy-limits")) ++accept->params.limits.outbound;
    } else if (auto* reject = std::get_if<core::CmReject>(&action)) {
      if (Broken("wrong-refusal") && reject->detail == Detail::kBacklogFull) reject->detail = Detail::kPaused;
    }
  }
}

void World::Violation(const std::string& what) {
  if (violation_.empty()) violation_ = what;
}

void World::OnStart(Host& host) {
  Watcher& watcher = watchers_[static_cast<std::size_t>(host.number())];
  Model::Options options;
  options.epoch = host.epoch();
  options.settings = host.options().settings;
  options.reclaim_slice = host.options().reclaim_slice;
  options.policy = host.options().policy;
  options.adapters = host.cm().adapters();
  options.leases = host.leases();
  options.leases_until = host.leases_until();
  options.grace = kReclaimGrace;
  options.prove = [&host](const core::ConnectionFacts& facts) { return host.Prove(facts); };
  options.broken = [this](const char* name) { return Broken(name); };
  options.moved = [this](Model::State from, Model::State to) { coverage_.Moved(from, to); };
  watcher.model = std::make_unique<Model>(std::move(options));
  watcher.ledger = {};
  watcher.tables.reset();
  watcher.compared.reset();
  watcher.ledger.settings = host.options().settings;
  watcher.ledger.policy = host.options().policy;
  watcher.ledger.policies = {host.options().policy};
  for (const provider::AdapterDescription& d : host.cm().adapters()) {
    watcher.ledger.adapters.insert(d.info.name);
  }
  if (!host.leases().empty()) coverage_.Saw("harness", "lease kept");
  trace_.Line("host " + std::to_string(host.number()) + " starts, life " + std::to_string(host.epoch()) +
              ", " + std::to_string(host.leases().size()) + " leases");
}

void World::OnCrash(Host& host) {
  ++crashes_;
  coverage_.Saw("harness", "broker crash");
  trace_.Line("host " + std::to_string(host.number()) + " dies");
  schedule_.After(dice_.Millis(1, common_.winding_down ? 1 : 3000), [this, &host] {
    coverage_.Saw("harness", "broker restart");
    host.Start();
  });
}

void World::AfterStep(Host& host, const core::Event& event, const core::Actions& actions) {
  coverage_.Saw(event);
  const auto now = std::chrono::duration_cast<std::chrono::microseconds>(schedule_.now().time_since_epoch());
  trace_.Line("#" + std::to_string(steps_) + " " + std::to_string(now.count()) + " host " +
              std::to_string(host.number()) + ": " + Text(event));
  for (const core::Action& action : actions) {
    coverage_.Saw(action);
    trace_.Line("    " + Text(action));
    if (const auto* end = std::get_if<core::EndSession>(&action);
        end != nullptr && std::holds_alternative<core::SessionOpened>(event)) {
      coverage_.Saw("harness", "session refused");
    }
  }
  CheckStep(host, event, actions);
}

void World::CheckStep(Host& host, const core::Event& event, const core::Actions& actions) {
  Watcher& watcher = watchers_[static_cast<std::size_t>(host.number())];
  watcher.tables = std::make_unique<Tables>(host.broker());
  watcher.compared.reset();
  const Tables& tables = *watcher.tables;
  const auto check = [&](const std::string& wrong) {
    if (!wrong.empty()) Violation("host " + std::to_string(host.number()) + ": " + wrong);
  };
  check(FollowEvent(watcher.ledger, event));
  check(FollowActions(watcher.ledger, host, tables, actions));
  check(watcher.model->Step(schedule_.now(), event, actions, tables));
  check(host.broker().CheckInvariants());
  check(I1PortsHaveOneOwner(tables, watcher.ledger));
  check(I1KeptPortsAreHeld(tables, watcher.ledger));
  check(I2ChargesAreWithinQuota(tables, watcher.ledger));
  check(I4OperationsEndOnce(tables, watcher.ledger));
  check(I6EndedSessionsHaveNoObjects(tables, watcher.ledger));
  check(I7TimersHaveAPurpose(tables, schedule_.now(), host.leases_until()));
  check(I10GoodbyesEndInTime(tables, watcher.ledger, schedule_.now(), watcher.jumped));
  if (!host.journal().journaled) coverage_.Saw("harness", "journal stale");
}

void World::WindDown() {
  common_.winding_down = true;
  net_.faults = {0, 0, 0, 0, 0, 0, 0};
  fabric_.loss = 0;
  for (const std::unique_ptr<Host>& host : hosts_) {
    host->faults = {};
    host->mutable_options().cm.tcp = {};
    if (host->up()) host->cm().Settle();
  }
  for (const std::unique_ptr<App>& app : apps_) app->WindDown();
  foreign_.WindDown();
}

void World::CheckRest() {
  for (const std::unique_ptr<Host>& host : hosts_) {
    const std::string wrong = I9NothingIsLeft(*host, net_);
    if (!wrong.empty()) return Violation(wrong);
  }
  for (const std::unique_ptr<App>& app : apps_) {
    if (!app->idle()) return Violation("I10: an application is still waiting for something");
  }
}

Outcome World::Run() {
  Build();
  const auto streams = [this] {
    for (const std::unique_ptr<Host>& host : hosts_) {
      if (!host->settled()) return;
      const std::string wrong = I3StreamsHaveOneOwner(net_, *host);
      if (!wrong.empty()) return Violation(wrong);
      if (!host->up()) continue;
      if (!host->cm().spins().empty()) return Violation(host->cm().spins());
      if (!host->cm().overlooked().empty()) return Violation(host->cm().overlooked());
      Watcher& watcher = watchers_[static_cast<std::size_t>(host->number())];
      const std::string wire = I3AttemptsMatchTheWire(*host, watcher.ledger);
      if (!wire.empty()) return Violation(wire);
      if (watcher.compared == host->journal_calls()) continue;
      watcher.compared = host->journal_calls();
      if (watcher.tables == nullptr) watcher.tables = std::make_unique<Tables>(host->broker());
      const std::string journal = I9JournalEqualsHeldPorts(*host, *watcher.tables, watcher.ledger);
      if (!journal.empty()) return Violation(journal);
    }
  };
  while (!stopped_ && violation_.empty() && steps_ < options_.steps && !schedule_.empty()) {
    schedule_.RunNext();
    streams();
  }
  if (!stopped_ && violation_.empty()) {
    WindDown();
    const Time last = schedule_.now() + kRestAfter;
    while (!stopped_ && violation_.empty() && !schedule_.empty()) {
      if (schedule_.next() > last) Violation("I10: the world does not come to rest");
      schedule_.RunNext();
      streams();
    }
    if (!stopped_ && violation_.empty()) CheckRest();
  }
  Outcome outcome;
  outcome.violation = violation_;
  outcome.steps = steps_;
  outcome.hash = trace_.hash();
  outcome.connected = common_.connected;
  outcome.messages = common_.messages;
  outcome.reattached = common_.reattached;
  outcome.crashes = crashes_;
  outcome.bytes = net_.bytes_delivered();
  if (violation_.empty()) return outcome;
  outcome.tail = trace_.Tail();
  outcome.line = "ndsim --seed=" + std::to_string(options_.seed);
  if (options_.steps != kDefaultSteps) outcome.line += " --steps=" + std::to_string(options_.steps);
  outcome.line += " --until=" + std::to_string(steps_);
  for (const std::string& mistake : options_.mistakes) outcome.line += " --mistake=" + mistake;
  return outcome;
}

}  // namespace nd::sim
