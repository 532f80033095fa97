// SPDX-License-Identifier: Apache-2.0
// Events of the administrator and the provider: adapters off and on, kills, new settings.
#include <utility>

#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

void Broker::Impl::RemoveObject(Connector& c) {
  c.removed = true;
  const Ending ending{c.established ? ConnectionRecord::Outcome::kBroken : ConnectionRecord::Outcome::kFailed,
                      AdapterGone(Detail::kAdapterDisabled)};
  if (c.state == ConnectorState::kConnecting) ++counters_.connect_failure;
  CancelAll(c, AdapterGone(Detail::kAdapterDisabled));
  if (c.state == ConnectorState::kIncoming && c.cm) {
    Emit(CmReject{*c.cm, Detail::kAdapterDisabled, {}});
    ForgetCm(c, false);
  }
  if (c.state == ConnectorState::kConnected || c.state == ConnectorState::kDisconnecting) {
    if (c.state == ConnectorState::kConnected) ++counters_.connection_error;
    c.reason = DisconnectReason::kAdapterDisabled;
    Emit(SendTransportCommand{{c.handle, TransportCommand::What::kDrop, c.reason, 0}, c.session});
    if (std::exchange(c.disconnect_event, false) && !SessionOf(c.session).closed) {
      Emit(SendDisconnectEvent{{c.handle, c.reason}, c.session});
    }
  }
  // The peer's end may be reported before the removal that caused it; the receives still wait then.
  if (c.state == ConnectorState::kPeerClosed) {
    Emit(SendTransportCommand{
        {c.handle, TransportCommand::What::kDrop, DisconnectReason::kAdapterDisabled, 0}, c.session});
  }
  c.closing = c.closing || c.reattaching;  // The client never received the handle.
  Kill(c, ending);
  AfterDead(c);
}

void Broker::Impl::RemoveObject(Listener& l) {
  l.removed = true;
  if (l.op) {
    Finish(l.session, l.op, AdapterGone(Detail::kAdapterDisabled));
    ports_.Drop(&l.claim);
  }
  StopListening(l, Detail::kAdapterDisabled, AdapterGone(Detail::kAdapterDisabled));
}

void Broker::Impl::RemoveObject(SharedEndpoint& e) {
  e.removed = true;
  if (!e.op) return;
  Finish(e.session, e.op, AdapterGone(Detail::kAdapterDisabled));
  Close(e);
}

void Broker::Impl::TellAdapter(AdapterNo adapter, SendAdapterEvent::What what) {
  for (const auto& [id, s] : sessions_.all()) {
    if (s.ending) continue;
    for (const auto& [sequence, handle] : s.Of(ObjectKind::kAdapter)) {
      const Object* const object = FindAny(handle);
      if (object->adapter_no != adapter || object->closing) continue;
      Emit(SendAdapterEvent{{handle, what}, id});
    }
  }
}

void Broker::Impl::RemoveFromUse(AdapterNo adapter, SendAdapterEvent::What what) {
  WithdrawSpares();  // From now on clients are to learn that the adapter is gone.
  std::vector<Handle> handles;
  for (const auto& [id, s] : sessions_.all()) {
    for (const Session::Objects& objects : s.objects) {
      for (const auto& [sequence, handle] : objects) {
        const Object* const object = FindAny(handle);
        if (object->adapter_no == adapter && !object->removed) handles.push_back(handle);
      }
    }
  }
  // All of them leave the queue first: a place that becomes free must not start a queued connect of this
  // session.
  for (const Handle handle : handles) {
    if (Connector* const c = Find<Connector>(handle)) LeaveLine(*c);
  }
  for (const Handle handle : handles) {
    Object* const object = FindAny(handle);
    if (object == nullptr) continue;  // It was destroyed together with another object.
    switch (object->kind) {
      case ObjectKind::kConnector:
        RemoveObject(static_cast<Connector&>(*object));
        break;
      case ObjectKind::kListener:
        RemoveObject(static_cast<Listener&>(*object));
        break;
      case ObjectKind::kSharedEndpoint:
        RemoveObject(static_cast<SharedEndpoint&>(*object));
        break;
      case ObjectKind::kQueuePair:
        object->removed = true;
        break;
      case ObjectKind::kAdapter:
        break;  // It is usable again when the adapter is.
    }
  }
  TellAdapter(adapter, what);
  LaunchWaiting();  // Others may have waited behind connects of an ended session.
}

void Broker::Impl::On(const SetAdapter& event) {
  const std::optional<AdapterNo> no = AdapterNamed(adapters_, event.name);
  if (!no || adapters_[*no].enabled == event.enabled) return;
  adapters_[*no].enabled = event.enabled;
  Note(Notice::Level::kWarning, event.enabled ? "adapter.enabled" : "adapter.disabled", event.name,
       "By the administrator.");
  if (event.enabled) {
    TellAdapter(*no, SendAdapterEvent::What::kEnabled);
  } else {
    RemoveFromUse(*no, SendAdapterEvent::What::kDisabled);
  }
}

void Broker::Impl::NoteProblem(AdapterState* adapter) {
  const std::string& now = adapter->description.problem.message();
  if (adapter->noted == now) return;
  adapter->noted = now;
  if (now.empty()) {
    Note(Notice::Level::kInfo, "adapter.ready", adapter->description.info.name, "It can be used now.");
  } else {
    Note(Notice::Level::kWarning, "adapter.problem", adapter->description.info.name, now);
  }
}

void Broker::Impl::AddAdapter(const provider::AdapterDescription& description) {
  AdapterNo no = 0;
  const auto reusable = [&](const AdapterState& old) {
    return description.network != 0 && !old.present && old.description.network != 0 && old.objects == 0;
  };
  while (no < adapters_.size() && !reusable(adapters_[no])) ++no;
  if (no == adapters_.size()) {
    adapters_.push_back({description, true, true, 0});
  } else {
    adapters_[no] = {description, true, true, 0};
  }
  if (description.problem.ok()) {
    Note(Notice::Level::kInfo, "adapter.added", description.info.name, "The provider has a new adapter.");
  }
  NoteProblem(&adapters_[no]);
}

void Broker::Impl::On(const AdaptersChanged& event) {
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (!adapters_[no].present) continue;
    const std::string name = adapters_[no].description.info.name;
    bool stays = false;
    for (const provider::AdapterDescription& now : event.adapters) {
      if (now.info.name != name) continue;
      const bool lost = adapters_[no].description.problem.ok() && !now.problem.ok();
      // Clients choose the addresses of a served network, so the pools of former addresses are removed.
      if (now.network != 0 && now.info.addresses != adapters_[no].description.info.addresses) {
        ports_.ForgetPools(no);
      }
      adapters_[no].description = now;
      if (lost) RemoveFromUse(no, SendAdapterEvent::What::kRemoved);
      NoteProblem(&adapters_[no]);
      stays = true;
      break;
    }
    if (stays) continue;
    adapters_[no].present = false;
    // A served network comes and goes with its clients.
    const bool served = adapters_[no].description.network != 0;
    Note(served ? Notice::Level::kInfo : Notice::Level::kWarning, "adapter.removed", name,
         "The provider no longer has it.");
    ports_.ForgetLeasesOf(no);
    if (adapters_[no].objects != 0) RemoveFromUse(no, SendAdapterEvent::What::kRemoved);
    ports_.DropReservationsOf(no);
    if (served) ports_.ForgetPools(no);
  }
  for (const provider::AdapterDescription& now : event.adapters) {
    if (AdapterNamed(adapters_, now.info.name)) continue;
    AddAdapter(now);
  }
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (adapters_[no].present) ports_.HoldHostPorts(no);
  }
}

void Broker::Impl::On(const KillSession& event) {
  Session* const s = sessions_.Find(event.session);
  if (s == nullptr || s->closed) return;
  s->killed = true;
  EndSessionNow(*s,
                {StatusCode::kCanceled, "The administrator ended the session.", Detail::kLocalAdministrator});
}

void Broker::Impl::On(const KillConnection& event) {
  Connector* const c = Find<Connector>(event.connector);
  if (c == nullptr || c->closing || c->reattaching || SessionOf(c->session).closed) return;
  const Status killed(StatusCode::kCanceled, "The administrator ended the connection.",
                      Detail::kLocalAdministrator);
  const Status aborted(StatusCode::kConnectionAborted, killed.message(), killed.detail());
  const Ending ending{ConnectionRecord::Outcome::kKilled, killed};
  Note(Notice::Level::kWarning, "connection.killed", Show(c->handle), "By the administrator.");
  switch (c->state) {
    case ConnectorState::kConnecting:
      ++counters_.connect_failure;
      [[fallthrough]];
    case ConnectorState::kCompleting:
    case ConnectorState::kAccepting:
      CancelAll(*c, killed);
      Kill(*c, ending);
      break;
    case ConnectorState::kReplied:
      Kill(*c, ending);
      c->withdrawn_replied = true;
      c->ended = aborted;
      break;
    case ConnectorState::kIncoming:
      Emit(CmReject{*c->cm, Detail::kLocalAdministrator, {}});
      ForgetCm(*c, false);
      Kill(*c, ending);
      c->withdrawn_incoming = true;
      c->ended = aborted;
      break;
    case ConnectorState::kConnected:
      if (StateOf(*c).description.client_disconnects) {
        Emit(SendTransportCommand{
            {c->handle, TransportCommand::What::kDrop, DisconnectReason::kLocalAdministrator, 0},
            c->session});
      }
      ForgetCm(*c, true);
      c->reason = DisconnectReason::kLocalAdministrator;
      RecordEnd(*c, ending);
      PeerClosed(*c, DisconnectReason::kLocalAdministrator);
      break;
    default:
      break;  // The connector is not on the wire, or is ending already.
  }
}

void Broker::Impl::On(const SettingsChanged& event) {
  WithdrawSpares();  // The limits may be lower.
  settings_ = event.settings;
  policy_ = event.policy;
  FixRange(&settings_);
  attempts_.set_limit(settings_.max_handshakes_in_flight);
  ports_.SettingsChanged();
  LaunchWaiting();
}

Status Broker::Impl::Draining() const {
  if (!draining_) return {};
  return {StatusCode::kDeviceNotReady,
          "The broker is draining: it takes nothing new. Ask its administrator, or use another host.",
          Detail::kPaused};
}

void Broker::Impl::On(const SetDraining& event) {
  if (draining_ == event.drain) return;
  draining_ = event.drain;
  Note(Notice::Level::kWarning, draining_ ? "broker.draining" : "broker.resumed", "",
       draining_ ? "New work is refused; established connections continue." : "New work is accepted again.");
}

void Broker::Impl::On(const ReservePort& event) {
  ports_.Reserve(event);
}

void Broker::Impl::On(const ReleasePort& event) {
  ports_.Release(event);
}

}  // namespace nd::core
