// SPDX-License-Identifier: Apache-2.0
// What the administrator and the provider do to everybody: adapters off and on, kills, new settings.
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
namespace {

Status Removed() {
  return {StatusCode::kDeviceRemoved, "The adapter was removed or disabled.", Detail::kAdapterDisabled};
}

}  // namespace

std::optional<AdapterNo> Broker::Impl::AdapterNamed(std::string_view name) const {
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (adapters_[no].present && adapters_[no].description.info.name == name) return no;
  }
  return std::nullopt;
}

void Broker::Impl::RemoveObject(Connector& c) {
  c.removed = true;
  const Ending ending{c.established ? ConnectionRecord::Outcome::kBroken : ConnectionRecord::Outcome::kFailed,
                      Removed()};
  if (c.state == ConnectorState::kConnecting) ++counters_.connect_failure;
  CancelAll(c, Removed());
  if (c.state == ConnectorState::kIncoming) {
    Emit(CmReject{*c.cm, Detail::kAdapterDisabled, {}});
    ForgetCm(c, false);
  }
  if (c.state == ConnectorState::kConnected || c.state == ConnectorState::kDisconnecting) {
    if (c.state == ConnectorState::kConnected) ++counters_.connection_error;
    c.reason = DisconnectReason::kAdapterDisabled;
    Emit(SendTransportCommand{c.session, c.handle, SendTransportCommand::What::kDrop, c.reason, 0});
    if (std::exchange(c.disconnect_event, false)) Emit(SendDisconnectEvent{c.session, c.handle, c.reason});
  }
  c.closing = c.closing || c.reattaching;  // The client never learned the handle.
  Kill(c, ending);
  AfterDead(c);
}

void Broker::Impl::RemoveObject(Listener& l) {
  l.removed = true;
  if (l.op) {
    Finish(l.session, l.op, Removed());
    DropPort(l.claim);
  }
  StopListening(l, Detail::kAdapterDisabled, Removed());
}

void Broker::Impl::RemoveObject(SharedEndpoint& e) {
  e.removed = true;
  if (!e.op) return;
  Finish(e.session, e.op, Removed());
  Close(e);
}

void Broker::Impl::TellAdapter(AdapterNo adapter, SendAdapterEvent::What what) {
  for (const auto& [id, s] : sessions_) {
    if (s.ending) continue;
    for (const auto& [sequence, handle] : s.objects) {
      const Object* const object = FindAny(handle);
      if (object->kind != ObjectKind::kAdapter || object->adapter_no != adapter || object->closing) continue;
      Emit(SendAdapterEvent{id, handle, what});
    }
  }
}

void Broker::Impl::RemoveFromUse(AdapterNo adapter, SendAdapterEvent::What what) {
  std::vector<Handle> handles;
  for (const auto& [id, s] : sessions_) {
    for (const auto& [sequence, handle] : s.objects) {
      const Object* const object = FindAny(handle);
      if (object->adapter_no == adapter && !object->removed) handles.push_back(handle);
    }
  }
  // As for a dead session: none of them is sent by the room that the others make.
  for (const Handle handle : handles) {
    if (Connector* const c = Find<Connector>(handle)) LeaveQueue(*c);
  }
  for (const Handle handle : handles) {
    Object* const object = FindAny(handle);
    if (object == nullptr) continue;  // Went with another one.
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
        break;  // Usable again when the adapter is.
    }
  }
  TellAdapter(adapter, what);
  LaunchQueued();
}

void Broker::Impl::On(const SetAdapter& event) {
  const std::optional<AdapterNo> no = AdapterNamed(event.name);
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

void Broker::Impl::On(const AdaptersChanged& event) {
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (!adapters_[no].present) continue;
    const std::string name = adapters_[no].description.info.name;
    bool stays = false;
    for (const provider::AdapterDescription& now : event.adapters) {
      if (now.info.name != name) continue;
      const bool lost = adapters_[no].description.problem.ok() && !now.problem.ok();
      adapters_[no].description = now;
      if (lost) RemoveFromUse(no, SendAdapterEvent::What::kRemoved);
      NoteProblem(&adapters_[no]);
      stays = true;
      break;
    }
    if (stays) continue;
    adapters_[no].present = false;
    Note(Notice::Level::kWarning, "adapter.removed", name, "The provider no longer has it.");
    // The journal knows adapters by name, and one that comes back is another.
    for (const auto& [key, entry] : ports_.entries()) {
      if (key.adapter == no) Emit(LeaseFreed{name, key.local()});
    }
    RemoveFromUse(no, SendAdapterEvent::What::kRemoved);
    // Its reservations, too: an adapter that comes back is a new one.
    std::vector<PortKey> reserved;
    for (const auto& [key, reservation] : ports_.reservations()) {
      if (key.adapter == no) reserved.push_back(key);
    }
    for (const PortKey& key : reserved) DropReservation(key);
  }
  for (const provider::AdapterDescription& now : event.adapters) {
    if (AdapterNamed(now.info.name)) continue;
    adapters_.push_back({now, true, true, 0});
    if (now.problem.ok()) {
      Note(Notice::Level::kInfo, "adapter.added", now.info.name, "The provider has a new adapter.");
    }
    NoteProblem(&adapters_.back());
  }
  for (AdapterNo no = 0; no < adapters_.size(); ++no) {
    if (adapters_[no].present) KeepLeases(no);
  }
}

void Broker::Impl::On(const KillSession& event) {
  Session* const s = FindSession(event.session);
  if (s == nullptr) return;
  s->killed = true;
  EndSessionNow(*s,
                {StatusCode::kCanceled, "The administrator ended the session.", Detail::kLocalAdministrator});
}

void Broker::Impl::On(const KillConnection& event) {
  Connector* const c = Find<Connector>(event.connector);
  if (c == nullptr || c->closing || c->reattaching) return;
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
        Emit(SendTransportCommand{c->session, c->handle, SendTransportCommand::What::kDrop,
                                  DisconnectReason::kLocalAdministrator, 0});
      }
      ForgetCm(*c, true);
      c->reason = DisconnectReason::kLocalAdministrator;
      RecordEnd(*c, ending);
      PeerClosed(*c, DisconnectReason::kLocalAdministrator);
      break;
    default:
      break;  // Nothing on the wire, or on its way out already.
  }
  LaunchQueued();
}

void Broker::Impl::On(const SettingsChanged& event) {
  settings_ = event.settings;
  policy_ = event.policy;
  FixRange(&settings_);
  ports_.SetRange(settings_.ephemeral_first, settings_.ephemeral_last);
  LaunchQueued();
}

}  // namespace nd::core
