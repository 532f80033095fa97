// SPDX-License-Identifier: Apache-2.0
// The results of the events of the wire.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

}  // namespace

Model::Thing* Model::OpenByCm(provider::CmId id) {
  Thing* const c = ByCm(id);
  return c == nullptr || Closed(*c) ? nullptr : c;
}

bool Model::WireEnded(Thing& c) {
  if (!Closed(c)) return true;
  c.cm.reset();
  c.launched = false;
  return false;
}

void Model::On(const core::CmReserved& e) {
  for (Reserving& r : reserving_) {
    const auto kept = r.open.find(e.endpoint);
    if (kept == r.open.end()) continue;
    const Key key = kept->second;
    r.open.erase(kept);
    if (!e.status.ok()) {
      r.failed = true;
      r.keys.erase(key);
      kept_.erase(key);
    }
    return SettleReserves();
  }
  const auto found = reservations_.find(e.endpoint);
  if (found == reservations_.end()) return;
  Thing& t = *Find(found->second);
  reservations_.erase(found);
  if (Closed(t)) return TakeBack(t);
  Reserved(t, e.status.code());
}

void Model::On(const core::CmRequested& e) {
  const provider::InboundRequest& r = e.request;
  const auto id = static_cast<std::uint64_t>(r.id);
  if (id == 0 || waiting_ids_.contains(id) || ByCm(r.id) != nullptr) return;
  std::size_t no = 0;
  while (no < adapters_.size() &&
         (!adapters_[no].present || adapters_[no].description.info.name != r.adapter)) {
    ++no;
  }
  if (no == adapters_.size() || !adapters_[no].enabled) return ExpectReject(r.id, Detail::kAdapterDisabled);
  // The exact address, else the unspecified address of its family.
  const auto exact = ports_.find(Key{no, r.local});
  auto place = exact;
  if (place == ports_.end()) {
    place = std::ranges::find_if(ports_, [&](const auto& p) {
      return p.first.adapter == no && p.first.at.unspecified() && p.first.at.family() == r.local.family() &&
             p.first.at.port() == r.local.port();
    });
  }
  const bool open = place != ports_.end() && !place->second.lease && place->second.kind == Kind::kListener &&
                    !place->second.closing;
  Thing* const l = open ? Find(place->second.holder) : nullptr;
  if (l == nullptr || l->kind != Kind::kListener || !l->listening || Closed(*l)) {
    return ExpectReject(r.id, Detail::kNoListener);
  }
  if (l->paused || draining_) return ExpectReject(r.id, Detail::kPaused);
  if (!policy_.MayListen(sessions_.at(l->session).who, r.local).allowed) {
    return ExpectReject(r.id, Detail::kPolicy);
  }
  for (const bool role : {true, false}) {
    if (!role && settings_.allow_same_owner_bind_sharing) continue;
    bool waiting = false;
    const Thing* const holder = TupleHolder(no, r.local, r.remote, role, &waiting);
    if (holder == nullptr) continue;
    const bool over = !waiting && holder->passive && (holder->state == X || holder->state == P);
    if (!over) return ExpectReject(r.id, Detail::kStaleConnection);
    break;
  }
  const auto take_over = [&] {
    for (auto& [other, t] : things_) {
      if (t.kind == Kind::kConnector && t.tuple && t.passive && t.adapter == no && t.local == r.local &&
          t.remote == r.remote) {
        t.tuple = false;
      }
    }
  };
  if (l->events) {
    if (Unanswered(*l) >= l->backlog) return ExpectReject(r.id, Detail::kBacklogFull);
    const Thing& opened = *Find(l->opened);
    if (opened.closing) return ExpectReject(r.id, Detail::kListenerClosed);
    if (Quota(sessions_.at(l->session), Kind::kConnector) != Code::kSuccess) {
      return ExpectReject(r.id, Detail::kQuota);
    }
    take_over();
    Thing& c = Make(Kind::kConnector, l->session, no, l->opened);
    Deliver(c, *l, r);
    const auto* told = Seen<core::SendConnectEvent>(
        [&](const core::SendConnectEvent& a) { return a.listener == l->handle; });
    if (told == nullptr) return Fail("the connect event is missing");
    GiveName(c, told->connector);
    return;
  }
  if (l->gets.empty() && l->requests.size() >= l->backlog) return ExpectReject(r.id, Detail::kBacklogFull);
  take_over();
  if (l->gets.empty()) {
    l->requests.push_back(r);
    waiting_ids_.insert(id);
    return;
  }
  const Id oldest = l->gets.front();
  l->gets.pop_front();
  Deliver(*Find(oldest), *l, r);
}

void Model::On(const core::CmReplied& e) {
  Thing* const c = OpenByCm(e.id);
  if (c == nullptr || c->state != C) return;
  std::optional<ReadLimits> limits = c->offer;
  if (e.limits_known) limits = ActiveEnds(c->offer, e.peer, Caps(*c));
  if (!limits) {
    ExpectReject(e.id, Detail::kProtocol);
    return FailConnect(*c, Code::kInsufficientResources);
  }
  c->limits = *limits;
  c->data = e.private_data;
  Move(*c, R);
  Expected& expected = Finish(*c, c->op, Code::kSuccess);
  expected.limits = c->limits;
  expected.data = c->data;
  expected.address = c->local;
}

void Model::On(const core::CmRejected& e) {
  Thing* const c = ByCm(e.id);
  if (c == nullptr || c->state != C || !WireEnded(*c)) return;
  if (e.status.detail() == Detail::kPeerRejected && !e.private_data.empty()) {
    c->data = e.private_data;
    c->refusal_data = true;
  }
  FailConnect(*c, e.status.ok() || e.status.pending() ? Code::kConnectionRefused : e.status.code());
}

void Model::On(const core::CmFailed& e) {
  Thing* const c = ByCm(e.id);
  if (c == nullptr || c->state != C || !WireEnded(*c)) return;
  FailConnect(*c, e.status.ok() || e.status.pending() ? Code::kConnectionRefused : e.status.code());
}

void Model::On(const core::CmPrepare& e) {
  Thing* const c = OpenByCm(e.id);
  if (c != nullptr && (c->state == K || c->state == A)) c->preparing = true;
}

void Model::On(const core::CmEstablished& e) {
  Thing* const c = OpenByCm(e.id);
  if (c == nullptr || (c->state != K && c->state != A)) return;
  if (c->passive) {
    bool waiting = false;
    const Thing* const other = TupleHolder(c->adapter, c->local, c->remote, false, &waiting);
    if (other != nullptr && (other->state == E || other->state == K)) {
      Finish(*c, c->op, Code::kAddressAlreadyExists);
      return Kill(*c);
    }
  }
  const auto* hand_off = Seen<core::HandOffTo>(
      [&](const core::HandOffTo& a) { return a.id == e.id && a.connector == c->handle; });
  Check(hand_off != nullptr && hand_off->limits == c->limits, "b.4: the hand-over has other limits");
  Up(*c);
  const core::Identity& who = sessions_.at(c->session).who;
  Expected& done = Finish(*c, c->op, Code::kSuccess);
  done.limits = c->limits;
  if (!Client(*c) || !options_.prove) return;
  done.proof = options_.prove({Info(*c).name, c->local, c->remote, c->passive, who.uid});
}

void Model::LoseWaiting(provider::CmId id) {
  for (auto& [number, t] : things_) {
    std::erase_if(t.requests, [&](const provider::InboundRequest& r) { return r.id == id; });
  }
  waiting_ids_.erase(static_cast<std::uint64_t>(id));
}

void Model::On(const core::CmLost& e) {
  if (waiting_ids_.contains(static_cast<std::uint64_t>(e.id))) return LoseWaiting(e.id);
  Thing* const c = ByCm(e.id);
  if (c == nullptr || !WireEnded(*c)) return;
  c->cm.reset();
  Lost(*c, e.status.code(), e.status.ok() ? Detail::kPeerWithdrew : e.status.detail(), e.private_data);
}

void Model::Lost(Thing& c, StatusCode code, Detail detail, const Bytes& data) {
  const bool timeout = code == Code::kIoTimeout;
  const bool kept =
      timeout ||
      code == Code::kInsufficientResources;  // Accept and CompleteConnect report this code unchanged.
  const auto keep = [&] {
    if (data.empty()) return;
    c.data = data;
    c.refusal_data = true;
  };
  switch (c.state) {
    case C:
      return FailConnect(c, timeout ? Code::kIoTimeout : Code::kConnectionRefused);
    case I:
      Kill(c);
      c.withdrawn_incoming = true;
      return keep();
    case R:
      Kill(c);
      (timeout ? c.expired : c.withdrawn_replied) = true;
      return keep();
    case A: {
      Code answer = kept ? code : Code::kConnectionAborted;
      const bool said = detail == Detail::kPeerRejected || detail == Detail::kPeerWithdrew;
      if (!timeout && said && settings_.accept_refused_on_reject) answer = Code::kConnectionRefused;
      keep();
      Finish(c, c.op, answer);
      return Kill(c);
    }
    case K:
      Finish(c, c.op, kept ? code : Code::kConnectionAborted);
      return Kill(c);
    case E:
      return PeerClosed(c);
    case D:
      return FinishGoodbye(c, Code::kSuccess);
    default:
      return;
  }
}

void Model::On(const core::CmPeerClosed& e) {
  if (waiting_ids_.contains(static_cast<std::uint64_t>(e.id))) return LoseWaiting(e.id);
  Thing* const c = OpenByCm(e.id);
  if (c == nullptr) return;
  switch (c->state) {
    case A:
    case K:
      Up(*c);
      Finish(*c, c->op, Code::kSuccess);
      return PeerClosed(*c);
    case E:
      return PeerClosed(*c);
    case D:
      return FinishGoodbye(*c, Code::kSuccess);
    case C:
    case R:
    case I:
      c->cm.reset();
      return Lost(*c, Code::kConnectionAborted, Detail::kPeerWithdrew, {});
    default:
      return;
  }
}

void Model::On(const core::CmDisconnected& e) {
  Thing* const c = OpenByCm(e.id);
  if (c == nullptr || c->state != D) return;
  FinishGoodbye(*c, e.status == Code::kIoTimeout ? Code::kIoTimeout : Code::kSuccess);
}
}  // namespace nd::sim
