// SPDX-License-Identifier: Apache-2.0
// Listeners: Listen in both dialects, pause, and the end of listening.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {
void Broker::Impl::Do(Session& s, Pending p, const ListenOp& op) {
  Listener* const l = FindOwn<Listener>(s, op.listener);
  if (l == nullptr) {
    Finish(s.id, p, BadHandle("listener"));
    return;
  }
  if (l->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  if (op.local && !op.local->well_formed()) {
    Finish(s.id, p, CheckLocal(s, StateOf(*l).description.info, *op.local, true));
    return;
  }
  const auto wanted = op.local ? Listener::State::kUnbound : Listener::State::kBound;
  if (l->state != wanted || l->op) {
    const char* const why = l->state == Listener::State::kListening ? "The listener listens already."
                            : l->op                                 ? "The listener waits for its port."
                            : op.local                              ? "The listener is bound already."
                                                                    : "The listener is not bound.";
    Finish(s.id, p, {StatusCode::kInvalidDeviceState, why});
    return;
  }
  const Address& local = op.local ? *op.local : l->local;
  if (op.local) {
    if (Status bad = CheckLocal(s, StateOf(*l).description.info, local, true); !bad.ok()) {
      Finish(s.id, p, std::move(bad));
      return;
    }
  }
  if (const Verdict verdict = policy_.MayListen(s.who, local); !verdict.allowed) {
    Finish(s.id, p, {StatusCode::kAccessDenied, verdict.reason, Detail::kPolicy});
    return;
  }
  if (Status draining = Draining(); !draining.ok()) {
    Finish(s.id, p, std::move(draining));
    return;
  }
  l->asked_backlog = op.backlog;
  l->connect_events = op.connect_events;
  if (!op.local) {
    StartListening(*l);
    Reply reply;
    reply.address = l->local;
    Finish(s.id, p, {}, std::move(reply));
    return;
  }
  l->op = p;
  l->listen_after_bind = true;
  const PortTaker taker = TakerOf(s, *l);
  Status taken = ports_.Take(taker, *op.local, &l->claim, &l->local);
  if (taken.ok() && ports_.AskHost(taker, &l->claim)) return;
  Reserved(*l, std::move(taken));
}

void Broker::Impl::StartListening(Listener& l) {
  l.state = Listener::State::kListening;
  l.queue.set_limit(ListenerQueue::EffectiveBacklog(l.asked_backlog, settings_.max_backlog));
  AdapterState& adapter = StateOf(l);
  ++adapter.listeners;
  Emit(CmListen{ports_.EndpointOf(l.claim), adapter.description.info.name, l.local});
  Note(Notice::Level::kInfo, "listener.listening", Show(l.handle), l.local.ToString() + ".");
}

void Broker::Impl::StopListening(Listener& l, Detail detail, const Status& gets) {
  if (l.state != Listener::State::kListening) return;
  l.state = Listener::State::kBound;
  AdapterState& adapter = StateOf(l);
  ND_CORE_CHECK(adapter.listeners > 0);
  --adapter.listeners;
  Emit(CmUnlisten{ports_.EndpointOf(l.claim)});
  while (RefuseOldest(l, detail)) {
  }
  CancelGets(l, gets);
  Note(Notice::Level::kInfo, "listener.closed", Show(l.handle), l.local.ToString() + ".");
}

bool Broker::Impl::RefuseOldest(Listener& l, Detail detail) {
  const std::optional<provider::InboundRequest> request = l.queue.TakeOldestRequest();
  if (!request) return false;
  const auto id = static_cast<std::uint64_t>(request->id);
  tuples_.Erase({l.adapter_no, request->local, request->remote}, Role::kPassive, id);
  cm_.erase(id);
  RefuseInbound(*request, &l, detail);
  return true;
}

void Broker::Impl::CancelGets(Listener& l, const Status& status) {
  while (const std::optional<Handle> get = l.queue.TakeOldestGet()) {
    Connector& c = ConnectorAt(*get);
    c.state = ConnectorState::kUnbound;
    c.waits_at = {};
    Finish(c.session, c.op, status);
  }
}

void Broker::Impl::SetPaused(Listener& l, bool paused) {
  l.queue.set_paused(paused);
}

void Broker::Impl::Do(Session& s, Pending p, const ControlConnectEventsOp& op) {
  Listener* const l = FindOwn<Listener>(s, op.listener);
  if (l == nullptr) {
    Finish(s.id, p, BadHandle("listener"));
    return;
  }
  if (l->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  if (l->state != Listener::State::kListening) {
    Finish(s.id, p, {StatusCode::kInvalidDeviceState, "The listener does not listen."});
    return;
  }
  SetPaused(*l, op.pause);
  Finish(s.id, p, {});
}

void Broker::Impl::On(const PauseListener& event) {
  Listener* const l = Find<Listener>(event.listener);
  if (l == nullptr || l->state != Listener::State::kListening) return;
  SetPaused(*l, event.pause);
  Note(Notice::Level::kWarning, event.pause ? "listener.paused" : "listener.resumed", Show(l->handle),
       l->local.ToString() + " by the administrator.");
}

}  // namespace nd::core
