// SPDX-License-Identifier: Apache-2.0
// The life of the process of an application: sessions, messages, death, and its successor.
#include "tests/sim/app.h"

#include <utility>

namespace nd::sim {

const char* Name(Manners manners) {
  constexpr const char* kNames[] = {"honest", "slow", "silent", "dying", "forking", "hostile"};
  return kNames[static_cast<int>(manners)];
}

App::App(Common& common, Options options, std::uint32_t number)
    : common_(common), options_(std::move(options)), number_(number) {}
App::~App() = default;

core::Identity App::Identity() const {
  core::Identity who;
  who.uid = options_.uid;
  who.gid = options_.uid;
  who.pid = pid_;
  who.born = born_;
  who.command = Name(options_.manners);
  who.foreign_network = options_.foreign_network;
  return who;
}

void App::Start() {
  alive_ = true;
  silent_ = false;
  pid_ = 100 +
         number_;  // Every process has the same pid; only the birth time distinguishes it from its successor.
  ++born_;
  OpenSession();
  if (options_.manners == Manners::kSilent) {
    common_.schedule.After(dice().Millis(50, 5000), [this] { silent_ = alive_ && !common_.winding_down; });
  }
  if (options_.manners == Manners::kDying || options_.manners == Manners::kForking) {
    common_.schedule.After(dice().Millis(1, 6000), [this] {
      if (!common_.winding_down) Die();
    });
  }
}

void App::OpenSession() {
  if (!alive_ || token_ != 0 || silent_) return;
  token_ = host().Open(*this, Identity());
  if (token_ == 0) {
    if (!common_.winding_down) {
      common_.schedule.After(dice().Millis(5, 300), [this] { OpenSession(); });
    }
    return;
  }
  core::OpenAdapterOp open;
  open.name = options_.adapter;
  Submit(open, [this](const core::Complete& complete) {
    if (!complete.status.ok()) return;
    adapter_ = complete.reply.handle;
    std::vector<std::uint32_t> survivors;
    for (const auto& [number, link] : links_) survivors.push_back(number);
    for (const std::uint32_t number : survivors) Reattach(number);
    if (options_.server && !common_.winding_down) Serve();
  });
}

void App::Die() {
  if (!alive_) return;
  alive_ = false;
  const bool child = options_.manners == Manners::kForking && !common_.winding_down && dice().Chance(700);
  if (token_ != 0) host().HangUp(token_);
  CloseAllStreams(child);
  const Token gone = std::exchange(token_, 0);
  waiting_.clear();
  links_.clear();
  sent_operations_.clear();
  mine_.clear();
  adapter_ = listener_ = endpoint_ = {};
  gets_ = 0;
  next_op_ = 1;
  host().Readable(gone);
  if (common_.winding_down) return;
  common_.schedule.After(dice().Millis(10, 2000), [this] {
    if (!common_.winding_down) Start();
  });
}

void App::CloseAllStreams(bool child_keeps_them) {
  for (auto& [number, link] : links_) {
    if (link->arrived && link->arrived->transport.end != 0)
      common_.net.Close(link->arrived->transport.end, true);
    if (!link->talk || link->talk->ended() == Talk::End::kBroken) {
      if (link->talk) link->talk->Close(true);
      continue;
    }
    const EndId end = link->talk->end();
    link->talk.reset();
    if (!child_keeps_them) {
      common_.net.Close(end, true);
      continue;
    }
    common_.saw("child keeps stream");
    common_.schedule.After(dice().Millis(10, 3000), [this, end] { common_.net.Close(end, true); });
  }
}

void App::LoseSession(bool broker_lost) {
  token_ = 0;
  waiting_.clear();
  sent_operations_.clear();
  mine_.clear();
  adapter_ = listener_ = endpoint_ = {};
  gets_ = 0;
  next_op_ = 1;
  // Links that are not established end. Established ones continue when only the broker is gone.
  for (auto it = links_.begin(); it != links_.end();) {
    Link& link = *it->second;
    const bool survives = broker_lost && link.up && !link.ending && link.talk &&
                          link.talk->ended() == Talk::End::kNone && !common_.winding_down;
    if (survives) {
      link.lost = true;
      ++it;
      continue;
    }
    if (link.talk) link.talk->Close(true);
    if (link.arrived && link.arrived->transport.end != 0) {
      common_.net.Close(link.arrived->transport.end, true);
    }
    it = links_.erase(it);
  }
  if (!alive_ || common_.winding_down) return;
  common_.schedule.After(broker_lost ? dice().Millis(1, 500) : dice().Millis(100, 4000),
                         [this] { OpenSession(); });
}

core::OpId App::Submit(const session::Operation& op, Reply reply) {
  if (token_ == 0) return 0;
  const core::OpId id = next_op_++;
  waiting_[id] = std::move(reply);
  if (options_.manners == Manners::kHostile) {
    sent_operations_.emplace_back(id, op);
    if (sent_operations_.size() > 40) sent_operations_.erase(sent_operations_.begin());
  }
  host().Submit(token_, id, op);
  return id;
}

void App::Later(std::function<void()> f) {
  const bool slow = options_.manners == Manners::kSlow;
  const Duration think = slow ? dice().Millis(10, 4000) : dice().Micros(0, 3000);
  common_.schedule.After(common_.winding_down ? Duration{} : think, [this, token = token_, f = std::move(f)] {
    if (alive_ && token_ == token && !silent_) f();
  });
}

App::Link* App::Find(std::uint32_t number) {
  const auto found = links_.find(number);
  return found == links_.end() ? nullptr : found->second.get();
}

App::Link* App::FindConnector(core::Handle connector) {
  if (!connector) return nullptr;
  for (auto& [number, link] : links_) {
    if (link->connector == connector && !link->lost) return link.get();
  }
  return nullptr;
}

void App::OnMessage(Token token, Message message) {
  if (token != token_ || !alive_) {
    // The message belongs to an ended session; the descriptor that came with it has no owner.
    if (const auto* hand_off = std::get_if<HandOffMessage>(&message)) {
      if (hand_off->transport.end != 0) common_.net.Close(hand_off->transport.end, true);
    }
    return;
  }
  if (const auto* over = std::get_if<SessionOver>(&message)) return LoseSession(over->broker_lost);
  if (auto* hand_off = std::get_if<HandOffMessage>(&message)) {
    const EndId end = hand_off->transport.end;
    if (end != 0) {
      common_.net.SetOwner(end, Owner::kApplication, options_.host);
      common_.records[end] = hand_off->transport.record;
    }
    Link* const link = FindConnector(hand_off->connector);
    if (link == nullptr) {
      if (end != 0) common_.net.Close(end, true);
      return;
    }
    link->arrived = *hand_off;
    return TryUp(*link);
  }
  if (const auto* complete = std::get_if<core::Complete>(&message)) {
    ++common_.completions;
    if (complete->status.ok() && complete->reply.handle) common_.handles.push_back(complete->reply.handle);
    const auto waits = waiting_.find(complete->op_id);
    if (waits == waiting_.end()) return;  // The reply to a repeated operation.
    const Reply reply = std::move(waits->second);
    waiting_.erase(waits);
    if (reply) reply(*complete);
    return;
  }
  if (const auto* event = std::get_if<core::SendConnectEvent>(&message)) {
    common_.handles.push_back(event->connector);
    auto link = std::make_unique<Link>();
    link->number = next_link_++;
    link->passive = true;
    link->connector = event->connector;
    const std::uint32_t number = link->number;
    links_[number] = std::move(link);
    return Later([this, number] { Incoming(number); });
  }
  if (const auto* command = std::get_if<core::SendTransportCommand>(&message)) return OnCommand(*command);
  if (const auto* event = std::get_if<core::SendAdapterEvent>(&message)) {
    // Every object of the session is gone: clear the tables, and reopen when the adapter is back.
    for (auto& [number, link] : links_) {
      if (!link->ending && !link->lost) Later([this, n = number] { CloseLink(n); });
    }
    if (event->what == core::SendAdapterEvent::What::kEnabled && options_.server && listener_) {
      const core::Handle old = std::exchange(listener_, {});
      gets_ = 0;
      Submit(core::CloseOp{old, false});
      Later([this] { Serve(); });
    }
  }
}

Address App::Local(std::uint16_t port, bool wildcard) {
  const std::string host = std::to_string(options_.host);
  std::string ip;
  if (wildcard) {
    ip = "0.0.0.0";
  } else if (options_.adapter == "a0") {
    ip = "10.0." + host + (dice().Chance(700) ? ".1" : ".2");
  } else if (options_.adapter == "a1") {
    ip = "10.1." + host + ".1";
  } else {
    ip = "10.2." + host + ".1";
  }
  return Address::Parse(ip)->WithPort(port);
}

Address App::Somewhere() {
  if (!common_.servers.empty() && dice().Chance(850)) {
    // An address that had a listener lately; the listener may be gone.
    const std::size_t from = dice().Below(static_cast<std::uint32_t>(common_.servers.size()));
    for (std::size_t i = 0; i < common_.servers.size(); ++i) {
      const auto& [adapter, at] = common_.servers[(from + i) % common_.servers.size()];
      if (adapter == options_.adapter) return at;
    }
  }
  const auto hosts = static_cast<std::uint32_t>(common_.hosts.size());
  std::string ip = "10.0.";
  if (options_.adapter == "a1") ip = "10.1.";
  if (options_.adapter == "v0") ip = "10.2.";
  ip += std::to_string(dice().Below(hosts)) + ".1";
  if (options_.adapter == "a1" && dice().Chance(250)) ip = "10.9.0.1";  // The foreign hosts.
  if (dice().Chance(10)) ip = "10.3.0.1";                               // A host that does not exist.
  if (dice().Chance(5)) ip = "0.0.0.0";
  const std::uint16_t port =
      dice().Chance(10) ? std::uint16_t{0} : static_cast<std::uint16_t>(options_.port + dice().Below(2));
  return Address::Parse(ip)->WithPort(port);
}

void App::Act() {
  if (!alive_ || token_ == 0 || !adapter_ || silent_ || common_.winding_down) return;
  if (options_.manners == Manners::kHostile && dice().Chance(800)) return Misbehave();
  if (options_.server && !listener_) return Later([this] { Serve(); });
  if (options_.server && dice().Chance(600)) return;
  if (links_.size() < 4) Begin();
}

void App::WindDown() {
  if (silent_) {
    silent_ = false;
    host().Readable(token_);
  }
  if (!alive_) return;
  if (token_ == 0 || options_.manners == Manners::kHostile || dice().Chance(400)) return Die();
  std::vector<std::uint32_t> numbers;
  for (const auto& [number, link] : links_) numbers.push_back(number);
  for (const std::uint32_t number : numbers) CloseLink(number);
  if (listener_) Submit(core::CloseOp{std::exchange(listener_, {}), false});
  if (endpoint_) Submit(core::CloseOp{std::exchange(endpoint_, {}), false});
  if (!adapter_) return Die();
  // Completes after everything above: the adapter is closed last.
  Submit(core::CloseOp{std::exchange(adapter_, {}), false}, [this](const core::Complete&) { Die(); });
  common_.schedule.After(std::chrono::seconds(60), [this] { Die(); });
}

}  // namespace nd::sim
