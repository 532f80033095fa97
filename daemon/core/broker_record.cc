// SPDX-License-Identifier: Apache-2.0
// Records of attempts and connections: each begin and each end is recorded exactly once.
//
// A passive attempt begins when its request arrives and has a record once an application received it.
// Requests that no application received are counted as refusals and have no record.
#include <algorithm>
#include <cerrno>
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

using Outcome = ConnectionRecord::Outcome;

void Broker::Impl::BeginAttempt(Connector& c, Time began) {
  ND_CORE_CHECK(!c.recording);
  c.recording = true;
  c.phases = PhaseTimes{began, {}};
  c.reason = DisconnectReason::kUnknown;
}

ConnectionRecord Broker::Impl::RecordOf(const Connector& c) {
  ConnectionRecord record;
  record.id = c.handle;
  record.session = c.session;
  record.owner = SessionOf(c.session).identity;
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
  // The connection was re-attached after the session of its other end had ended.
  if (Connector* const other = OtherEndOf(c)) other->other_end.reset();
  Emit(RecordOf(c));
}

Connector* Broker::Impl::OtherEndOf(const Connector& c) {
  // Adapters of different networks may have equal addresses.
  const std::uint64_t network = StateOf(c).description.network;
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (adapters_[no].description.network != network) continue;
    const TupleHolder holder =
        tuples_.Find({no, c.remote, c.local}, c.passive ? Role::kActive : Role::kPassive);
    Connector* const other = holder.connector ? Find<Connector>(holder.connector) : nullptr;
    if (other != nullptr && other->established) return other;
  }
  return nullptr;
}

// A transport within the host cannot distinguish a kill from a death, and its owner reports the end later
// than this broker knows it.
void Broker::Impl::TellOtherEnd(const Connector& c, const Ending& ending) {
  const auto told = [&](DisconnectReason reason, const std::string& why, Detail detail) {
    if (Connector* const other = OtherEndOf(c)) {
      other->other_end = OtherEnd{reason, {StatusCode::kConnectionAborted, why, detail}};
    }
  };
  if (ending.outcome == Outcome::kKilled) {
    told(DisconnectReason::kLocalAdministrator, "The administrator ended its other side.",
         Detail::kLocalAdministrator);
  } else if (ending.outcome == Outcome::kDied) {
    const bool left = SessionOf(c.session).ended_because.ok();
    told(left ? DisconnectReason::kPeerProcessDied : DisconnectReason::kUnknown,
         "At its other side: " + ending.why.message(), left ? Detail::kPeerProcessDied : ending.why.detail());
  } else if (ending.outcome == Outcome::kBroken && ending.why.detail() == Detail::kAdapterDisabled) {
    told(DisconnectReason::kAdapterDisabled, "At its other side: " + ending.why.message(),
         Detail::kAdapterDisabled);
  }
}

void Broker::Impl::RecordEnd(Connector& c, Ending ending) {
  if (!std::exchange(c.recording, false)) return;
  ConnectionRecord record = RecordOf(c);
  record.outcome = ending.outcome;
  record.ended = now_;
  if (c.established) TellOtherEnd(c, ending);
  record.why = std::move(ending.why);
  Emit(std::move(record));
}

Ending Broker::Impl::EndingOf(const Connector& c, DisconnectReason reason, const Status& seen) const {
  const auto broken = [](StatusCode code, std::string why, Detail detail, std::int32_t native = 0) {
    return Ending{Outcome::kBroken, {code, std::move(why), detail, native}};
  };
  if (c.other_end && c.other_end->reason == reason) return {Outcome::kBroken, c.other_end->why};
  switch (reason) {
    case DisconnectReason::kPeerDisconnected:
      return {Outcome::kClosed, {}};
    case DisconnectReason::kPeerProcessDied: {
      // A reset without a disconnect from another host is probably the death of the process.
      const bool here = std::any_of(adapters_.begin(), adapters_.end(), [&](const AdapterState& adapter) {
        if (adapter.description.network != StateOf(c).description.network) return false;
        const std::vector<Address>& own = adapter.description.info.addresses;
        return std::any_of(own.begin(), own.end(), [&](const Address& a) { return a.same_ip(c.remote); });
      });
      if (here)
        return broken(StatusCode::kConnectionAborted, std::string(Name(reason)), Detail::kPeerProcessDied);
      return broken(
          StatusCode::kConnectionAborted,
          "Reset by the other side without a word: its process died, or something cut it off there.",
          Detail::kTransport, ECONNRESET);
    }
    case DisconnectReason::kPeerBrokerLost:
      return broken(StatusCode::kConnectionAborted, std::string(Name(reason)), Detail::kPeerBrokerLost);
    case DisconnectReason::kTransportRetryExceeded:
      return broken(StatusCode::kIoTimeout, std::string(Name(reason)), Detail::kWireTimeout);
    case DisconnectReason::kLocalAdministrator:
      return broken(StatusCode::kConnectionAborted, std::string(Name(reason)), Detail::kLocalAdministrator);
    case DisconnectReason::kAdapterDisabled:
      return broken(StatusCode::kDeviceRemoved, std::string(Name(reason)), Detail::kAdapterDisabled);
    case DisconnectReason::kUnknown:
    case DisconnectReason::kEstablishmentFailed:
      break;
  }
  // The report of the application concerns its own connection only.
  if (!seen.ok()) return broken(StatusCode::kConnectionAborted, seen.message(), seen.detail(), seen.native());
  return broken(StatusCode::kConnectionAborted,
                "One side gave it up without a goodbye; the transport says no more.", Detail::kTransport);
}

Ending Broker::Impl::EndingOf(const Session& s, const Connector& c) {
  // The client had disconnected before its session ended.
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
  ports_.Stop();
  for (const auto& [id, s] : sessions_.all()) {
    for (const auto& [sequence, handle] : s.Of(ObjectKind::kConnector)) {
      Connector* const c = Find<Connector>(handle);
      if (s.closed) {
        RecordEnd(*c, EndingOf(s, *c));
      } else if (c->established) {
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
