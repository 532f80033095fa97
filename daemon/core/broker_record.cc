// SPDX-License-Identifier: Apache-2.0
// When the life of an attempt begins and ends, so that each is told of exactly once.
//
// A passive attempt begins when its request arrived and has a record from the moment an application was
// given it; requests that nobody took are counted as refusals and have none.
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

using Outcome = ConnectionRecord::Outcome;

void Broker::Impl::BeginAttempt(Connector& c, Time began) {
  ND_CORE_CHECK(!c.recording);
  c.recording = true;
  c.phases = PhaseTimes{began, {}};
  c.established.reset();
  c.reason = DisconnectReason::kUnknown;
}

ConnectionRecord Broker::Impl::RecordOf(const Connector& c) {
  ConnectionRecord record;
  record.id = c.handle;
  record.session = c.session;
  record.owner = SessionOf(c.session).who;
  record.adapter = StateOf(c).description.info.name;
  record.local = c.local;
  record.peer = c.remote;
  record.passive = c.passive;
  record.limits = c.limits;
  if (const QueuePair* const q = c.queue_pair ? Find<QueuePair>(c.queue_pair) : nullptr) {
    record.counter_slot = q->counter_slot;
  }
  record.phases = *c.phases;
  record.established = c.established;
  record.reason = c.reason;
  return record;
}

void Broker::Impl::RecordEstablished(Connector& c) {
  ND_CORE_CHECK(c.recording && !c.established);
  c.phases->End(Phase::kEstablish, now_);
  c.established = now_;
  Emit(RecordOf(c));
}

void Broker::Impl::RecordEnd(Connector& c, Ending ending) {
  if (!std::exchange(c.recording, false)) return;
  ConnectionRecord record = RecordOf(c);
  record.outcome = ending.outcome;
  record.ended = now_;
  record.why = std::move(ending.why);
  Emit(std::move(record));
}

Ending Broker::Impl::EndingOf(DisconnectReason reason) {
  const auto broken = [&](StatusCode code, Detail detail) {
    return Ending{Outcome::kBroken, {code, std::string(Name(reason)), detail}};
  };
  switch (reason) {
    case DisconnectReason::kPeerDisconnected:
      return {Outcome::kClosed, {}};
    case DisconnectReason::kPeerProcessDied:
      return broken(StatusCode::kConnectionAborted, Detail::kPeerProcessDied);
    case DisconnectReason::kPeerBrokerLost:
      return broken(StatusCode::kConnectionAborted, Detail::kPeerBrokerLost);
    case DisconnectReason::kTransportRetryExceeded:
      return broken(StatusCode::kIoTimeout, Detail::kWireTimeout);
    case DisconnectReason::kLocalAdministrator:
      return broken(StatusCode::kConnectionAborted, Detail::kLocalAdministrator);
    case DisconnectReason::kAdapterDisabled:
      return broken(StatusCode::kDeviceRemoved, Detail::kAdapterDisabled);
    case DisconnectReason::kUnknown:
    case DisconnectReason::kEstablishmentFailed:
      break;
  }
  return broken(StatusCode::kConnectionAborted, Detail::kTransport);
}

Ending Broker::Impl::EndingOf(const Session& s, const Connector& c) {
  // It had said goodbye before it went.
  if (c.state == ConnectorState::kDisconnecting) return {Outcome::kClosed, {}};
  if (s.killed) {
    return {Outcome::kKilled,
            {StatusCode::kCanceled, "The administrator ended the session.", Detail::kLocalAdministrator}};
  }
  const std::string why = s.ended_because.ok() ? std::string("Its application ended.")
                                               : "Its session ended: " + s.ended_because.ToString();
  return {Outcome::kDied, {StatusCode::kConnectionAborted, why, s.ended_because.detail()}};
}

void Broker::Impl::On(const Stopping&) {
  stopping_ = true;
  for (const auto& [id, s] : sessions_) {
    for (const auto& [sequence, handle] : s.objects) {
      Connector* const c = Find<Connector>(handle);
      if (c == nullptr) continue;
      if (c->established) {
        RecordEnd(*c, {Outcome::kClosed,
                       {StatusCode::kSuccess, "The broker stopped; the connection goes on without it."}});
      } else {
        RecordEnd(*c, {Outcome::kFailed,
                       {StatusCode::kDeviceNotReady, "The broker stopped.", Detail::kBrokerUnreachable}});
      }
    }
  }
}

}  // namespace nd::core
