// SPDX-License-Identifier: Apache-2.0
// The outside of the state machine: dispatch of events, timers, and nothing that decides.
#include "daemon/core/broker.h"

#include <cstdio>
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
const Policy& Broker::policy() const {
  return impl_->policy();
}
Quota::Usage Broker::UsageOf(std::uint32_t uid) const {
  return impl_->UsageOf(uid);
}
std::optional<Identity> Broker::OwnerOf(SessionId session) const {
  return impl_->OwnerOf(session);
}
Status Broker::CheckReserve(const Address& local) const {
  return impl_->CheckReserve(local);
}
Status Broker::CheckRelease(const Address& local) const {
  return impl_->CheckRelease(local);
}
std::string Broker::CheckInvariants() const {
  return impl_->CheckInvariants();
}

// A range that makes no sense is answered with the default one; the file's reader has said so before.
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
      policy_(std::move(options.policy)),
      resolve_(std::move(options.resolve)),
      may_come_back_(std::move(options.may_come_back)),
      ports_(options.seed, settings_.ephemeral_first, settings_.ephemeral_last),
      objects_(options.boot_epoch) {
  for (provider::AdapterDescription& description : options.adapters) {
    adapters_.push_back({std::move(description), true, true, 0});
  }
  HoldLeases(options.leases, options.leases_until);
}

void Broker::Impl::Step(Time now, const Event& event, Actions* actions) {
  now_ = now;
  out_ = actions;
  std::visit([this](const auto& e) { On(e); }, event);
  out_ = nullptr;
}

std::optional<Time> Broker::Impl::NextDeadline() const {
  if (timers_.empty()) return std::nullopt;
  return timers_.begin()->first.when;
}

void Broker::Impl::On(const Tick&) {
  while (!timers_.empty() && timers_.begin()->first.when <= now_) {
    const Timer timer = timers_.begin()->second;
    if (timer.kind == TimerKind::kGrace) {
      Disarm(grace_timer_);
      EndGrace();
      continue;
    }
    Connector& c = ConnectorAt(timer.connector);
    switch (timer.kind) {
      case TimerKind::kGrace:
        break;
      case TimerKind::kPace:
        Disarm(c.pace_timer);
        ReleaseFlight(c);
        break;
      case TimerKind::kEstablish:
        Disarm(c.establish_timer);
        Expire(c);
        break;
      case TimerKind::kGoodbye:
        Disarm(c.goodbye_timer);
        FinishGoodbye(
            c, {StatusCode::kIoTimeout, "The goodbye was not answered in time.", Detail::kWireTimeout});
        break;
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

void Broker::Impl::Note(Notice::Level level, std::string_view type, std::string object, std::string message) {
  Emit(Notice{level, std::string(type), std::move(object), std::move(message)});
}

std::string Broker::Impl::Show(Handle handle) {
  char text[24];
  std::snprintf(text, sizeof text, "%llx", static_cast<unsigned long long>(handle.value));
  return text;
}

std::string Broker::Impl::Show(SessionId session) {
  return std::to_string(static_cast<std::uint64_t>(session));
}

}  // namespace nd::core
