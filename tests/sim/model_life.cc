// SPDX-License-Identifier: Apache-2.0
// The life of the things of the model, from creation to the end.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {
using Code = StatusCode;
// A goodbye may stay unanswered for the configured time; a client that sends it itself gets this much more.
constexpr Duration kGrace = std::chrono::seconds(2);
}  // namespace

void Model::Move(Thing& c, State to) {
  if (c.state == to) return;
  if (options_.moved) options_.moved(c.state, to);
  c.state = to;
}

Model::Thing& Model::Make(Kind kind, SessionId session, std::size_t adapter, Id opened) {
  Thing& thing = things_[next_];
  thing.id = next_++;
  thing.kind = kind;
  thing.session = session;
  thing.adapter = adapter;
  thing.opened = opened;
  return thing;
}

void Model::CancelAll(Thing& c, StatusCode code) {
  if (c.state == W) {
    Thing& l = *Find(c.waits_at);
    std::erase(l.gets, c.id);
    c.waits_at = 0;
    Move(c, U);
  }
  Finish(c, c.op, code);
  for (OpId& notify : c.notifies) Finish(c, notify, code);
  c.notifies.clear();
}

// Ends an attempt. It keeps its port and address until it is closed.
void Model::Kill(Thing& c) {
  c.establish.reset();
  c.goodbye.reset();
  c.cm.reset();
  c.preparing = c.launched = false;
  if (c.reserving) {
    c.tuple = false;
    Drop(c);
    c.local = {};
  }
  Move(c, X);
  c.send_data.clear();
  if (!c.was_up) Detach(c);
}

void Model::Detach(Thing& c) {
  if (c.pair == 0) return;
  Thing& pair = *Find(std::exchange(c.pair, 0));
  pair.connector = 0;
  pair.closing = pair.closing || (c.reattaching && c.made_pair);
  MaybeFinishClose(pair.id);
}

void Model::FailConnect(Thing& c, StatusCode code) {
  Finish(c, c.op, code);
  Kill(c);
  if (!Retryable(code)) return;
  c.tuple = false;
  c.remote = {};
  Move(c, B);
  if (c.persistent) return;
  Move(c, U);
  Drop(c);
  c.local = {};
  if (const Id through = std::exchange(c.through, 0)) MaybeFinishClose(through);
}

void Model::Destroy(Id id) {
  Thing& thing = *Find(id);
  Finish(thing, thing.close_op, Code::kSuccess);
  const Id opened = thing.opened;
  if (thing.handle) handles_.erase(thing.handle);
  things_.erase(id);
  if (opened != 0) MaybeFinishClose(opened);
}

void Model::DestroyConnector(Thing& c) {
  Finish(c, c.close_op, Code::kSuccess);
  Kill(c);
  c.tuple = false;
  Drop(c);
  Detach(c);
  const Id through = std::exchange(c.through, 0);
  Destroy(c.id);
  if (through != 0) MaybeFinishClose(through);
}

// Finishes a requested Close once no other object needs the thing.
void Model::MaybeFinishClose(Id id) {
  Thing* const thing = Find(id);
  if (thing == nullptr || !thing->closing || thing->kind == Kind::kConnector) return;
  const bool needed = std::ranges::any_of(
      things_, [&](const auto& t) { return t.second.opened == id || t.second.through == id; });
  if (needed || thing->connector != 0) return;
  Drop(*thing);
  Destroy(id);
}

void Model::StartGoodbye(Thing& c) {
  Move(c, D);
  const bool quiet = settings_.notify_success_on_local_disconnect;
  for (OpId& notify : c.notifies) {
    Finish(c, notify, quiet ? Code::kSuccess : Code::kConnectionDisconnected);
  }
  c.notifies.clear();
  c.goodbye = now_ + settings_.disconnect_timeout + kGrace;
  if (Client(c)) {
    Check(Seen<core::SendTransportCommand>([&](const core::SendTransportCommand& a) {
            return a.connector == c.handle && a.what == core::SendTransportCommand::What::kDisconnect;
          }) != nullptr,
          "the client was not told to say goodbye");
  } else {
    Check(Seen<core::CmDisconnect>([&](const core::CmDisconnect& a) { return c.cm && a.id == *c.cm; }) !=
              nullptr,
          "the wire was not told to say goodbye");
  }
}

void Model::FinishGoodbye(Thing& c, StatusCode code) {
  Finish(c, c.op, code);
  Kill(c);
  AfterDead(c);
}

void Model::AfterDead(Thing& c) {
  if (c.closing) return DestroyConnector(c);
  const Thing* const pair = c.pair != 0 ? Find(c.pair) : nullptr;
  if (pair != nullptr && pair->closing && !pair->ndk) Detach(c);
}

void Model::PeerClosed(Thing& c) {
  Move(c, P);
  for (OpId& notify : c.notifies) Finish(c, notify, Code::kSuccess);
  c.notifies.clear();
  if (!std::exchange(c.disconnect_event, false)) return;
  Check(sessions_.at(c.session).ending ||
            Seen<core::SendDisconnectEvent>(
                [&](const core::SendDisconnectEvent& a) { return a.connector == c.handle; }) != nullptr,
        "the disconnect event is missing");
}

void Model::Up(Thing& c) {
  c.establish.reset();
  Move(c, E);
  c.was_up = true;
  Find(c.pair)->spent = true;
}

void Model::ExpectReject(provider::CmId id, Detail detail) {
  expected_rejects_[static_cast<std::uint64_t>(id)] = detail;
}

void Model::StartListening(Thing& l) {
  l.listening = true;
  const std::uint32_t cap = settings_.max_backlog;
  l.backlog = l.asked_backlog == 0 ? cap : std::min(l.asked_backlog, cap);
}

void Model::StopListening(Thing& l, Detail detail, StatusCode gets) {
  if (!l.listening) return;
  l.listening = false;
  for (const provider::InboundRequest& request : l.requests) {
    waiting_ids_.erase(static_cast<std::uint64_t>(request.id));
    ExpectReject(request.id, detail);
  }
  l.requests.clear();
  CancelGets(l, gets);
}

void Model::CancelGets(Thing& l, StatusCode code) {
  for (const Id id : std::exchange(l.gets, {})) {
    Thing& c = *Find(id);
    Move(c, U);
    c.waits_at = 0;
    Finish(c, c.op, code);
  }
}

std::size_t Model::Unanswered(const Thing& l) const {
  if (!l.events) return 0;
  return static_cast<std::size_t>(std::ranges::count_if(things_, [&](const auto& t) {
    return t.second.kind == Kind::kConnector && t.second.through == l.id && t.second.passive &&
           t.second.state == I;
  }));
}

void Model::Deliver(Thing& c, Thing& l, const provider::InboundRequest& request) {
  waiting_ids_.erase(static_cast<std::uint64_t>(request.id));
  Move(c, I);
  c.passive = true;
  c.waits_at = 0;
  c.local = request.local;
  c.remote = request.remote;
  c.cm = request.id;
  c.tuple = true;
  c.hold = l.hold;
  c.through = l.id;
  c.offer = request.limits_known ? request.peer_offer : ReadLimits{UINT32_MAX, UINT32_MAX};
  c.limits = PassiveSees(c.offer, Caps(c));
  c.data = request.private_data;
  Expected& expected = Finish(c, c.op, Code::kSuccess);
  expected.address = c.remote;
  expected.limits = c.limits;
  expected.data = c.data;
}

void Model::CloseThing(Thing& t, bool ndk) {
  t.closing = true;
  switch (t.kind) {
    case Kind::kAdapter:
      return MaybeFinishClose(t.id);
    case Kind::kConnector:
      CancelAll(t, Code::kCanceled);
      if (t.state == E) return StartGoodbye(t);
      if (t.state == D) return;
      if (t.state == I) {
        ExpectReject(*t.cm, Detail::kPeerRejected);
        t.cm.reset();
      }
      return DestroyConnector(t);
    case Kind::kListener:
      if (t.op != 0) {
        Finish(t, t.op, Code::kCanceled);
        Drop(t);
      }
      StopListening(t, Detail::kListenerClosed, Code::kCanceled);
      if (t.hold && ports_.at(*t.hold).holder == t.id) ports_.at(*t.hold).closing = true;
      return MaybeFinishClose(t.id);
    case Kind::kEndpoint:
      if (t.op != 0) {
        Finish(t, t.op, Code::kCanceled);
        Drop(t);
      }
      if (t.hold) ports_.at(*t.hold).closing = true;
      return MaybeFinishClose(t.id);
    case Kind::kPair:
      break;
  }
  t.ndk = ndk;
  Thing* const c = t.connector != 0 ? Find(t.connector) : nullptr;
  if (c == nullptr) return MaybeFinishClose(t.id);
  if (ndk) return;
  switch (c->state) {
    case C:
    case R:
    case K:
    case A:
      CancelAll(*c, Code::kCanceled);
      return Kill(*c);
    case E:
      return StartGoodbye(*c);
    case D:
      return CancelAll(*c, Code::kCanceled);
    case P:
      Kill(*c);
      return Detach(*c);
    default:
      return Detach(*c);
  }
}

// The adapter is gone or disabled: its things end, and only Close is allowed.
void Model::RemoveThings(std::size_t adapter) {
  std::vector<Id> ids;
  for (const auto& [id, t] : things_) {
    if (t.adapter == adapter && !t.removed) ids.push_back(id);
  }
  for (const Id id : ids) {
    Thing* const t = Find(id);
    if (t == nullptr || t->kind == Kind::kAdapter) continue;
    t->removed = true;
    if (t->kind == Kind::kConnector) {
      CancelAll(*t, Code::kDeviceRemoved);
      if (t->state == I && t->cm) {
        ExpectReject(*t->cm, Detail::kAdapterDisabled);
        t->cm.reset();
      }
      t->disconnect_event = t->disconnect_event && t->state != E && t->state != D;
      t->closing = t->closing || t->reattaching;
      Kill(*t);
      AfterDead(*t);
    } else if (t->kind == Kind::kListener) {
      if (t->op != 0) {
        Finish(*t, t->op, Code::kDeviceRemoved);
        Drop(*t);
      }
      StopListening(*t, Detail::kAdapterDisabled, Code::kDeviceRemoved);
    } else if (t->kind == Kind::kEndpoint && t->op != 0) {
      Finish(*t, t->op, Code::kDeviceRemoved);
      CloseThing(*t, false);
    }
  }
}

StatusCode Model::PairStatus(const Thing& pair) {
  const Thing* const holder = pair.connector != 0 ? Find(pair.connector) : nullptr;
  if (holder != nullptr && holder->state != X) return Code::kConnectionActive;
  return pair.spent ? Code::kInvalidDeviceState : Code::kSuccess;
}

}  // namespace nd::sim
