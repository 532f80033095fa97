// SPDX-License-Identifier: Apache-2.0
// The interface of the state machine: dispatch of events, and timers.
#include "daemon/core/broker.h"

#include <charconv>
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

Broker::Broker(Options options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Broker::~Broker() = default;
void Broker::Step(Time now, const Event& event, Actions* actions) {
  impl_->Step(now, event, actions);
}
std::optional<Time> Broker::NextDeadline() const {
  return impl_->NextDeadline();
}
std::size_t Broker::AdapterPlaces() const {
  return impl_->AdapterPlaces();
}
std::vector<AdapterRow> Broker::Adapters() const {
  return impl_->Adapters();
}
std::vector<ListenerRow> Broker::Listeners() const {
  return impl_->Listeners();
}
std::vector<ConnectionRow> Broker::Connections() const {
  return impl_->Connections();
}
std::vector<QueuePairRow> Broker::QueuePairs() const {
  return impl_->QueuePairs();
}
std::vector<EndpointRow> Broker::Endpoints() const {
  return impl_->Endpoints();
}
std::vector<PortRow> Broker::Ports() const {
  return impl_->Ports();
}
std::vector<SessionRow> Broker::Sessions() const {
  return impl_->Sessions();
}
Counters Broker::counters() const {
  return impl_->counters();
}
std::optional<Time> Broker::OldestPending() const {
  return impl_->OldestPending();
}
bool Broker::draining() const {
  return impl_->draining();
}
bool Broker::reclaiming() const {
  return impl_->reclaiming();
}
bool Broker::HasSession(SessionId session) const {
  return impl_->HasSession(session);
}
std::uint64_t Broker::BytesKeptFor(std::uint32_t uid) const {
  return impl_->BytesKeptFor(uid);
}
const Policy& Broker::policy() const {
  return impl_->policy();
}
Quota::Usage Broker::UsageOf(std::uint32_t uid) const {
  return impl_->UsageOf(uid);
}
std::optional<Identity> Broker::OwnerOf(SessionId session) const {
  return impl_->OwnerOf(session);
}
std::uint32_t Broker::NextCounterSlot(SessionId session) const {
  return impl_->NextCounterSlot(session);
}
Status Broker::CheckReserve(const Address& local) const {
  return impl_->ports().CheckReserve(local);
}
Status Broker::CheckRelease(const Address& local) const {
  return impl_->ports().CheckRelease(local);
}
std::string Broker::CheckInvariants() const {
  return impl_->CheckInvariants();
}

// Replaces an invalid range by the default. The reader of the configuration has reported it already.
void Broker::Impl::FixRange(Settings* settings) {
  if (settings->ephemeral_first != 0 && settings->ephemeral_first <= settings->ephemeral_last) return;
  settings->ephemeral_first = Settings().ephemeral_first;
  settings->ephemeral_last = Settings().ephemeral_last;
}

Settings Broker::Impl::Fixed(Settings settings) {
  FixRange(&settings);
  return settings;
}

Broker::Impl::Impl(Options options)
    : settings_(Fixed(options.settings)),
      reclaim_slice_(options.reclaim_slice),
      policy_(std::move(options.policy)),
      resolve_(std::move(options.resolve)),
      prove_(std::move(options.prove)),
      board_(options.spares),
      grace_(options.grace),
      connections_return_until_(options.leases_until),
      ports_({options.seed, options.owner_uid, std::move(options.may_come_back)}, settings_, adapters_,
             quota_, output_),
      objects_(options.boot_epoch, options.max_objects),
      sessions_(quota_),
      attempts_(settings_.max_handshakes_in_flight) {
  for (provider::AdapterDescription& description : options.adapters) {
    adapters_.push_back({std::move(description), true, true, 0});
  }
  if (ports_.HoldLeases(options.leases)) {
    grace_timer_ = {options.leases_until, next_sequence_++};
    timers_.insert({grace_timer_, {{}, TimerKind::kGrace}});
  }
}

void Broker::Impl::Step(Time now, const Event& event, Actions* actions) {
  now_ = now;
  output_.set_actions(actions);
  std::visit([this](const auto& e) { On(e); }, event);
  output_.set_actions(nullptr);
}

std::optional<Time> Broker::Impl::NextDeadline() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.when;
}

void Broker::Impl::On(const Tick&) {
  while (!timers_.empty() && timers_.begin()->first.when <= now_) {
    const Timer timer = timers_.begin()->second;
    switch (timer.kind) {
      case TimerKind::kGrace:
        Disarm(grace_timer_);
        ports_.EndLeases();
        break;
      case TimerKind::kPace: {
        Connector& c = ConnectorAt(timer.connector);
        Disarm(c.pace_timer);
        LeaveAttempts(c);
        break;
      }
      case TimerKind::kEstablish: {
        Connector& c = ConnectorAt(timer.connector);
        Disarm(c.establish_timer);
        Expire(c);
        break;
      }
      case TimerKind::kGoodbye: {
        FinishGoodbye(
            ConnectorAt(timer.connector),
            {StatusCode::kIoTimeout, "The goodbye was not answered in time.", Detail::kWireTimeout});
        break;
      }
    }
  }
}

void Broker::Impl::Arm(Connector& c, TimerKind kind, Time when) {
  TimerKey& key = kind == TimerKind::kPace        ? c.pace_timer
                  : kind == TimerKind::kEstablish ? c.establish_timer
                                                  : c.goodbye_timer;
  Disarm(key);
  key = {when, next_sequence_++};
  timers_.insert({key, {c.handle, kind}});
}

void Broker::Impl::Disarm(TimerKey& key) {
  if (!key) return;
  const std::size_t erased = timers_.erase(key);
  ND_CORE_CHECK(erased == 1);
  key = {};
}

std::string Broker::Impl::Ends(const Connector& c, std::string_view between, std::string_view end) {
  std::string text;
  text.reserve(64 + end.size());
  text += c.local.ToString();
  text += between;
  text += c.remote.ToString();
  text += end;
  return text;
}

std::string Broker::Impl::Show(Handle handle) {
  char text[16];
  const auto end = std::to_chars(text, text + sizeof text, handle.value, 16).ptr;
  return {text, end};
}

std::string Broker::Impl::Show(SessionId session) {
  return std::to_string(static_cast<std::uint64_t>(session));
}

}  // namespace nd::core
