// SPDX-License-Identifier: Apache-2.0
// Libraries open descriptors and threads at first use and keep them, so one connection is made and ended
// before anything is counted.
#include "tests/crash/stage.h"

#include <signal.h>

#include <cstdlib>

namespace nd::crash {
namespace {

constexpr Who kEach[] = {kA, kP, kBrokerA, kBrokerP};
constexpr char kAllowEverything[] =
    "name = \"tests\"\nquota = { sessions = 1000000, connectors = 1000000, listeners = 1000000, "
    "shared-endpoints = 1000000, queue-pairs = 1000000, ports = 1000000 }";

int IndexOf(Who who) {
  return who == kA ? 0 : who == kP ? 1 : who == kBrokerA ? 2 : 3;
}

}  // namespace

std::string Name(unsigned who, const Mode& mode) {
  std::string text;
  const auto add = [&](const char* name) { text += (text.empty() ? "" : "+") + std::string(name); };
  if ((who & kA) != 0) add("A");
  if ((who & kP) != 0) add("P");
  if (mode.local) {
    if ((who & (kBrokerA | kBrokerP)) != 0) add("broker");
  } else {
    if ((who & kBrokerA) != 0) add("brokerA");
    if ((who & kBrokerP) != 0) add("brokerP");
  }
  return text;
}

unsigned Stage::Same(unsigned who) const {
  if (mode_.local && (who & (kBrokerA | kBrokerP)) != 0) who |= kBrokerA | kBrokerP;
  return who;
}

Stage::Stage(const Mode& mode) : mode_(mode), directory_(MakeTempDirectory("ndcrash-")) {
  for (const Who who : kEach) {
    const int harness = who == kA || who == kP ? 3 : -1;
    holds_[IndexOf(who)] = std::make_unique<Hold>(directory_, std::to_string(IndexOf(who)), harness);
  }
  Probe::Get().Forget(directory_);  // The probe must start before the shim is preloaded.
  for (int side = 0; side < (mode_.local ? 1 : 2); ++side) {
    DaemonOptions options;
    options.sections["limits"] = "connections-per-uid = 100000";
    // Ports of killed processes become free while CloseAndCompare() waits.
    options.sections["broker"] = "reclaim-grace = \"2s\"";
    options.adapters = {"name = \"soft0\"\naddresses = [\"127.0.0." + std::to_string(side + 2) +
                        "\"]\nmode = \"" + (mode_.tcp ? "tcp" : "separate") + "\""};
    options.rules = {kAllowEverything};
    brokers_.push_back(std::make_unique<Daemon>(options));
    StartBroker(side);
  }
  if (!error_.empty()) return;
  for (int side = 0; side < 2; ++side) {
    ActorOptions options;
    options.broker = broker(side).directory();
    options.adapter = "soft0";
    options.application = side == 0 ? "A" : "P";
    apps_[side] = std::make_unique<Actor>(options);
    StartApp(side);
  }
  if (error_.empty()) error_ = Exercise();
  if (!error_.empty()) return;
  const auto calm = [&] {
    for (const Counts& counts : BrokerCounts()) {
      if (counts.connections + counts.listeners + counts.queue_pairs + counts.ports + counts.handshakes !=
          0) {
        return false;
      }
    }
    return true;
  };
  if (!Eventually(calm)) error_ = "a broker does not come to rest";
  // The last descriptors of the first connection close a little later.
  int equal = 0;
  const auto steady = [&] {
    std::vector<Counts> counts = BrokerCounts();
    std::vector<Census> censuses = Censuses();
    equal = counts == counts_ && censuses == censuses_ ? equal + 1 : 0;
    counts_ = std::move(counts);
    censuses_ = std::move(censuses);
    return equal >= 5;
  };
  if (!Eventually(steady)) error_ = "the resources of the processes do not come to rest";
}

Stage::~Stage() {
  for (auto& app : apps_) {
    if (app) app->Kill();
  }
  for (auto& broker : brokers_) broker->Kill();
  brokers_.clear();
  RemoveTree(directory_);
}

Hold& Stage::hold(Who who) {
  return *holds_[mode_.local && who == kBrokerP ? IndexOf(kBrokerA) : IndexOf(who)];
}

Address Stage::address(int side, std::uint16_t port) const {
  const char* ip = side == 0 || mode_.local ? "127.0.0.2" : "127.0.0.3";
  return Address::Parse(ip).value().WithPort(port);
}

void Stage::StartBroker(int side) {
  const Hold::Preload preload(hold(side == 0 ? kBrokerA : kBrokerP));
  if (!broker(side).Start()) error_ = "a broker does not start:\n" + broker(side).log();
}

bool Stage::TryStart(int side) {
  const Hold::Preload preload(hold(side == 0 ? kBrokerA : kBrokerP));
  broker(side).Launch();
  return broker(side).AwaitReady();
}

void Stage::StartApp(int side) {
  const Hold::Preload preload(hold(side == 0 ? kA : kP));
  app(side).Start();
  const Status status = app(side).Open();
  if (!status.ok()) error_ = app(side).options().application + " cannot open: " + status.ToString();
}

namespace {

// Within the host the first Writes show each process the table of regions of the other, which stays mapped.
std::string WriteOften(Actor& from, const Qp& sender, Actor& to) {
  const Memory target = to.Allocate(64, kAllowLocalWrite | kAllowRemoteWrite, false);
  const Memory source = from.Allocate(64, kAllowLocalWrite, false);
  for (int i = 0; i < 3; ++i) {
    const Status posted =
        sender.Post(RequestType::kWrite, 1, {{source.id(), 0, 64}}, target.address, target.token);
    if (!posted.ok()) return "Write: " + posted.ToString();
    const Work work = sender.cq.Next();
    if (work.status != StatusCode::kSuccess) return "a Write ended " + std::string(nd::Name(work.status));
  }
  return "";
}

}  // namespace

std::string Stage::Exercise() {
  Actor &a = app(0), &p = app(1);
  const std::uint16_t port = NewPort();
  std::string failure;
  {
    const Listener l = p.CreateListener();
    const Connector ac = a.CreateConnector(), pc = p.CreateConnector();
    const Qp aq = a.CreateQp(), pq = p.CreateQp();
    if (!l || !ac || !pc || !aq || !pq) return "objects cannot be made";
    Status status = l.Bind(address(1, port));
    if (status.ok()) status = l.Listen();
    if (status.ok()) status = ac.Bind(address(0, 0));
    Outcome connect, accept;
    if (status.ok()) {
      connect = ac.Connect(aq, address(1, port));
      status = l.GetConnectionRequest(pc).Wait();
    }
    if (status.ok()) {
      accept = pc.Accept(pq);
      status = connect.Wait();
    }
    if (status.ok()) status = ac.CompleteConnect().Wait();
    if (status.ok()) status = accept.Wait();
    failure = status.ok() ? Traffic(a, aq, p, pq) : "a connection cannot be made: " + status.ToString();
    if (failure.empty()) failure = WriteOften(a, aq, p);
    if (failure.empty()) (void)ac.Disconnect().Wait();
  }
  a.Reset();
  p.Reset();
  return failure;
}

std::vector<Counts> Stage::BrokerCounts() {
  std::vector<Counts> counts;
  for (auto& broker : brokers_) counts.push_back(broker->Count());
  return counts;
}

pid_t Stage::PidOf(Who who) {
  switch (who) {
    case kA:
      return app(0).process().pid();
    case kP:
      return app(1).process().pid();
    case kBrokerA:
      return broker(0).pid();
    default:
      return broker(1).pid();
  }
}

std::vector<Census> Stage::Censuses() {
  std::vector<Census> list;
  for (const Who who : {kA, kP, kBrokerA, kBrokerP}) {
    if (who == kBrokerP && mode_.local) continue;
    list.push_back(Take(PidOf(who)));
  }
  return list;
}

void Stage::Pause(unsigned who) {
  for (const Who each : kEach) {
    if ((who & each) == 0 || (mode_.local && each == kBrokerP)) continue;
    kill(PidOf(each), SIGSTOP);
    paused_ |= each;
  }
}

void Stage::Kill(unsigned who, const std::function<void()>& join) {
  dead_ |= Same(who);
  for (const Who each : kEach) {
    if ((who & each) != 0) kill(PidOf(each), SIGKILL);
  }
  for (const Who each : kEach) {
    if ((dead_ & each) == 0) {
      hold(each).Disarm();
      kill(PidOf(each), SIGCONT);
    }
  }
  if (join) join();
  for (int side = 0; side < 2; ++side) {
    if ((who & (side == 0 ? kA : kP)) != 0) app(side).Kill();
  }
  for (int side = 0; side < (mode_.local ? 1 : 2); ++side) {
    if ((dead_ & (side == 0 ? kBrokerA : kBrokerP)) != 0) broker(side).Kill();
  }
  paused_ = 0;
}

void Stage::Revive() {
  for (const Who who : kEach) hold(who).Disarm();
  if ((dead_ & kBrokerA) != 0) StartBroker(0);
  if ((dead_ & kBrokerP) != 0 && !mode_.local) StartBroker(1);
  for (int side = 0; side < 2; ++side) {
    if ((dead_ & (side == 0 ? kA : kP)) != 0) {
      StartApp(side);
    } else if (!Eventually([&] { return app(side).Connected(); })) {
      error_ = app(side).options().application + " does not come back to its broker";
    }
  }
  dead_ = 0;
}

std::vector<std::string> Stage::CloseAndCompare() {
  std::vector<std::string> faults;
  for (int side = 0; side < 2; ++side) {
    for (const std::string& fault : app(side).Reset()) {
      faults.push_back(app(side).options().application + ": " + fault);
    }
  }
  const std::string failure = Exercise();
  if (!failure.empty()) faults.push_back("afterwards " + failure);
  std::vector<Counts> counts;
  if (!Eventually([&] { return (counts = BrokerCounts()) == counts_; }, milliseconds(8000))) {
    for (std::size_t i = 0; i < counts.size(); ++i) {
      if (counts[i] == counts_[i]) continue;
      faults.push_back("broker " + std::to_string(i) + " had " + counts_[i].ToString() + "; has " +
                       counts[i].ToString());
    }
  }
  std::vector<Census> censuses;
  if (!Eventually([&] { return (censuses = Censuses()) == censuses_; }, milliseconds(8000))) {
    static constexpr const char* kNames[] = {"A", "P", "broker A", "broker P"};
    for (std::size_t i = 0; i < censuses.size(); ++i) {
      const std::string difference = Difference(censuses_[i], censuses[i]);
      if (!difference.empty()) faults.push_back(std::string(kNames[i]) + " has " + difference);
    }
  }
  return faults;
}

std::string Stage::Dump() {
  std::string text;
  for (const Who who : kEach) {
    if (!alive(who) || (who == kBrokerP && mode_.local)) continue;
    text += Name(who, mode_) + ": " + StateOf(PidOf(who));
  }
  for (int side = 0; side < (mode_.local ? 1 : 2); ++side) {
    if (alive(side == 0 ? kBrokerA : kBrokerP))
      text += broker(side).Ndctl("connection list") + broker(side).log();
  }
  return text;
}

std::string Traffic(Actor& a, const Qp& aq, Actor& p, const Qp& pq) {
  constexpr std::uint32_t kSize = 1000;
  const auto message = [](Actor& from, const Qp& sender, Actor& to, const Qp& receiver,
                          std::uint64_t seed) -> std::string {
    from.Scratch().Fill(1 << 20, kSize, seed);
    if (Status s = receiver.Receive(1000, 2 << 20, kSize); !s.ok()) return "Receive: " + s.ToString();
    if (Status s = sender.Send(1001, 1 << 20, kSize); !s.ok()) return "Send: " + s.ToString();
    for (const auto& [cq, context] : {std::pair(receiver.receive_cq, 1000u), std::pair(sender.cq, 1001u)}) {
      const Work work = cq.Next();
      if (work.status != StatusCode::kSuccess || work.context != context) {
        return "request " + std::to_string(work.context) + " of a message ended " +
               std::string(nd::Name(work.status));
      }
    }
    return to.Scratch().Check(2 << 20, kSize, seed) ? "" : "a message arrived damaged";
  };
  const std::string there = message(a, aq, p, pq, 17);
  return there.empty() ? message(p, pq, a, aq, 42) : there;
}

}  // namespace nd::crash
