// SPDX-License-Identifier: Apache-2.0
// The results of client arrivals and departures, of time and of administrative changes.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {
using Code = StatusCode;
}

void Model::On(const core::SessionOpened& e) {
  if (sessions_.contains(e.session)) return;
  const auto limit = policy_.LimitsOf(e.identity).sessions;
  const auto held = std::ranges::count_if(
      sessions_, [&](const auto& s) { return s.second.charged && s.second.who.uid == e.identity.uid; });
  Session& s = sessions_[e.session];
  s.who = e.identity;
  if (!draining_ && (!limit || held < *limit)) return;
  s.ending = true;
  s.charged = false;
  expected_ends_.insert(e.session);
}

void Model::On(const core::SessionClosed& e) {
  const auto found = sessions_.find(e.session);
  if (found == sessions_.end()) return;
  if (found->second.closed) return;
  found->second.ending = found->second.closed = true;  // A dead client gets no message.
  if (!e.why.ok()) user_returns_until_[found->second.who.uid] = now_ + options_.grace;
  reclaiming_.push_front(e.session);
  On(core::ReclaimSome{});
}

void Model::On(const core::ReclaimSome& e) {
  if (e.slice != 0) options_.reclaim_slice = e.slice;
  if (reclaiming_.empty()) return;
  const SessionId session = reclaiming_.front();
  reclaiming_.pop_front();
  if (TakeBack(session)) {
    sessions_.erase(session);
  } else {
    reclaiming_.push_back(session);
  }
}

bool Model::TakeBack(SessionId session) {
  std::uint32_t left = options_.reclaim_slice;
  for (const Kind kind : {Kind::kConnector, Kind::kPair, Kind::kEndpoint, Kind::kListener, Kind::kAdapter}) {
    std::vector<Id> ids;
    for (const auto& [id, t] : things_) {
      if (t.session == session && t.kind == kind) ids.push_back(id);
    }
    for (const Id id : ids) {
      Thing& t = *Find(id);
      for (; !t.notifies.empty(); t.notifies.pop_back(), --left) {
        if (left == 0) return false;
        Finish(t, t.notifies.back(), Code::kCanceled);
      }
      for (; !t.requests.empty(); t.requests.pop_front(), --left) {
        if (left == 0) return false;
        waiting_ids_.erase(static_cast<std::uint64_t>(t.requests.front().id));
        ExpectReject(t.requests.front().id, Detail::kListenerClosed);
      }
      if (left-- == 0) return false;
      TakeBack(t);
    }
  }
  return true;
}

void Model::TakeBack(Thing& t) {
  if (t.kind != Kind::kConnector) return CloseThing(t, false);
  if (t.state == W) {
    std::erase(Find(t.waits_at)->gets, t.id);
    t.waits_at = 0;
    Move(t, X);
  }
  CancelAll(t, Code::kCanceled);
  if (t.state == I && t.cm) ExpectReject(*t.cm, Detail::kPeerProcessDied);
  t.closing = true;
  DestroyConnector(t);
}

void Model::On(const core::ClientOp& e) {
  const auto found = sessions_.find(e.session);
  if (found == sessions_.end() || found->second.ending) return;
  Session& s = found->second;
  const auto* const report = std::get_if<core::TransportReportOp>(&e.op);
  if (e.op_id == 0 && report != nullptr) return Do(e.session, 0, *report);
  if (e.op_id == 0) {
    s.ending = true;
    expected_ends_.insert(e.session);
    return;
  }
  if (s.running.contains(e.op_id)) return;
  if (const auto done = s.done.find(e.op_id); done != s.done.end()) {
    expected_[{e.session, e.op_id}].code = done->second;
    return;
  }
  s.running.insert(e.op_id);
  std::visit([&](const auto& op) { Do(e.session, e.op_id, op); }, e.op);
}

void Model::On(const core::AdaptersChanged& e) {
  for (std::size_t no = 0; no < adapters_.size(); ++no) {
    if (!adapters_[no].present) continue;
    const auto still = std::ranges::find_if(e.adapters, [&](const provider::AdapterDescription& d) {
      return d.info.name == adapters_[no].description.info.name;
    });
    if (still != e.adapters.end()) {
      adapters_[no].description = *still;
    } else {
      adapters_[no].present = false;
      RemoveThings(no);
      std::vector<Key> gone;
      for (const auto& [key, uid] : kept_) {
        if (key.adapter == no) gone.push_back(key);
      }
      for (const Key& key : gone) ReleaseReservation(key);
    }
  }
  for (const provider::AdapterDescription& d : e.adapters) {
    const bool known = std::ranges::any_of(
        adapters_, [&](const Adapter& a) { return a.present && a.description.info.name == d.info.name; });
    if (!known) adapters_.push_back({d, true, true});
  }
}

std::vector<Model::Key> Model::KeysOf(const Address& local) const {
  std::vector<Key> keys;
  for (std::size_t no = 0; no < adapters_.size(); ++no) {
    if (adapters_[no].present && CheckLocal({}, no, local, true) == Code::kSuccess)
      keys.push_back({no, local});
  }
  return keys;
}

void Model::On(const core::ReservePort& e) {
  const auto answer = [&](bool good) {
    const auto* done =
        Seen<core::ReserveDone>([&](const core::ReserveDone& a) { return a.status.ok() == good; });
    Check(done != nullptr, "a ReservePort is not answered as it must be");
  };
  const std::vector<Key> keys = e.local.port() == 0 ? std::vector<Key>{} : KeysOf(e.local);
  if (keys.empty()) return answer(false);
  for (const Key& key : keys) {
    if (Conflicts(key, nullptr) || KeptFor(key, {})) return answer(false);
  }
  Reserving r;
  for (const Key& key : keys) {
    kept_[key] = e.uid;
    r.keys.insert(key);
    if (!adapters_[key.adapter].description.keep_ports) continue;
    const auto* asked = Seen<core::CmReserve>([&](const core::CmReserve& a) {
      return a.adapter == Info(key.adapter).name && a.local == e.local && !r.open.contains(a.endpoint);
    });
    if (asked == nullptr) return Fail("the host port of a reservation was not asked for");
    r.open[asked->endpoint] = key;
  }
  if (r.open.empty()) return answer(true);
  reserving_.push_back(std::move(r));
}

// A reservation that is released while the host is being asked fails the whole ReservePort.
void Model::ReleaseReservation(const Key& key) {
  kept_.erase(key);
  for (Reserving& r : reserving_) {
    r.keys.erase(key);
    r.failed |= std::erase_if(r.open, [&](const auto& o) { return o.second == key; }) != 0;
  }
  SettleReserves();
}

void Model::SettleReserves() {
  for (const Reserving& r : reserving_) {
    if (!r.open.empty()) continue;
    const auto* done =
        Seen<core::ReserveDone>([&](const core::ReserveDone& a) { return a.status.ok() != r.failed; });
    Check(done != nullptr, "a ReservePort is not answered as the host did");
    if (!r.failed) continue;
    for (const Key& key : r.keys) kept_.erase(key);
  }
  std::erase_if(reserving_, [](const Reserving& r) { return r.open.empty(); });
}

void Model::On(const core::ReleasePort& e) {
  for (const Key& key : KeysOf(e.local)) ReleaseReservation(key);
}

void Model::On(const core::Tick&) {
  // A former holder that did not come back in time loses its port.
  if (options_.leases_until <= now_) std::erase_if(ports_, [](const auto& p) { return p.second.lease; });
  std::vector<Id> due;
  for (const auto& [id, t] : things_) {
    if ((t.establish && *t.establish <= now_) || (t.goodbye && *t.goodbye <= now_)) due.push_back(id);
  }
  for (const Id id : due) {
    Thing* const c = Find(id);
    if (c == nullptr) continue;
    if (c->goodbye && *c->goodbye <= now_) {
      c->goodbye.reset();
      FinishGoodbye(*c, Code::kIoTimeout);
      continue;
    }
    c->establish.reset();
    if (c->state == C) {
      if (!c->launched) late_.push_back({Key{c->adapter, c->local}, c->remote});
      FailConnect(*c, Code::kIoTimeout);
    } else if (c->state == R) {
      Kill(*c);
      c->expired = true;
    } else if (c->state == K || c->state == A) {
      Finish(*c, c->op, Code::kIoTimeout);
      Kill(*c);
    }
  }
}

void Model::On(const core::SetAdapter& e) {
  for (std::size_t no = 0; no < adapters_.size(); ++no) {
    Adapter& a = adapters_[no];
    if (!a.present || a.description.info.name != e.name || a.enabled == e.enabled) continue;
    a.enabled = e.enabled;
    if (!e.enabled) RemoveThings(no);
    return;
  }
}

void Model::On(const core::KillConnection& e) {
  Thing* const c = ByHandle(e.connector);
  if (c == nullptr || c->kind != Kind::kConnector || c->closing || c->reattaching || Closed(*c)) return;
  switch (c->state) {
    case C:
    case K:
    case A:
      CancelAll(*c, Code::kCanceled);
      return Kill(*c);
    case R:
      Kill(*c);
      c->withdrawn_replied = true;
      return;
    case I:
      ExpectReject(*c->cm, Detail::kLocalAdministrator);
      Kill(*c);
      c->withdrawn_incoming = true;
      return;
    case E:
      c->cm.reset();
      return PeerClosed(*c);
    default:
      return;
  }
}

void Model::On(const core::KillSession& e) {
  const auto found = sessions_.find(e.session);
  if (found == sessions_.end() || found->second.ending) return;
  found->second.ending = true;
  expected_ends_.insert(e.session);
}

void Model::On(const core::PauseListener& e) {
  Thing* const l = ByHandle(e.listener);
  if (l != nullptr && l->kind == Kind::kListener && l->listening) l->paused = e.pause;
}

void Model::On(const core::SettingsChanged& e) {
  settings_ = e.settings;
  policy_ = e.policy;
}

}  // namespace nd::sim
