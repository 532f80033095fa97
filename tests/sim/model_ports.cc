// SPDX-License-Identifier: Apache-2.0
// The rules of port ownership, checked against all holders.
#include <algorithm>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {
using Code = StatusCode;
}

StatusCode Model::CheckLocal(const Session& s, std::size_t adapter, const Address& local,
                             bool wildcard) const {
  if (!local.well_formed() || s.who.foreign_network) return Code::kInvalidAddress;
  for (const Address& own : adapters_[adapter].description.info.addresses) {
    if (own.same_ip(local)) return Code::kSuccess;
    if (wildcard && local.unspecified() && own.family() == local.family()) return Code::kSuccess;
  }
  return Code::kInvalidAddress;
}

bool Model::Same(const Key& a, const Key& b) {
  return a.adapter == b.adapter && a.at.family() == b.at.family() && a.at.port() == b.at.port() &&
         (a.at.unspecified() || b.at.unspecified() || a.at.same_ip(b.at));
}

bool Model::Conflicts(const Key& key, const core::Identity* who) const {
  for (const auto& [other, port] : ports_) {
    if (!Same(other, key)) continue;
    if (!other.at.same_ip(key.at) && options_.broken("model-ignores-wildcards")) continue;
    if (!port.lease || who == nullptr || !KeptForProcess(port, *who)) return true;
  }
  return false;
}

bool Model::KeptForProcess(const Port& lease, const core::Identity& who) {
  if (lease.uid != who.uid) return false;
  return lease.pid == 0 || (lease.pid == who.pid && lease.born == who.born);
}

StatusCode Model::MayBind(const Session& s, std::size_t adapter, const Address& local) const {
  if (local.port() == 0) return Code::kSuccess;
  const auto held = ports_.find({adapter, local});
  if (held != ports_.end() && held->second.lease && KeptForProcess(held->second, s.who))
    return Code::kSuccess;
  return policy_.MayListen(s.who, local).allowed ? Code::kSuccess : Code::kAccessDenied;
}

// Once three quarters are taken, a user with more than a quarter of the free ports gets no more.
bool Model::HasShare(const Session& s, std::size_t adapter, const Address& local) const {
  const bool any = local.port() == 0;
  if (!any && (local.port() < settings_.ephemeral_first || local.port() > settings_.ephemeral_last))
    return true;
  std::uint32_t range = 0, free = 0;
  std::set<Key> held;
  for (std::uint32_t port = settings_.ephemeral_first; port <= settings_.ephemeral_last; ++port) {
    const Key key{adapter, local.WithPort(static_cast<std::uint16_t>(port))};
    ++range;
    if (!Conflicts(key, nullptr) && !KeptFor(key, {})) ++free;
    for (const auto& [other, entry] : ports_) {
      if (entry.uid == s.who.uid && Same(other, key)) held.insert(other);
    }
  }
  return free > 0 && (free * 4 > range || held.size() * 4 < free);
}

bool Model::KeptFor(const Key& key, std::optional<std::uint32_t> uid) const {
  return std::ranges::any_of(kept_,
                             [&](const auto& k) { return Same(k.first, key) && (!uid || k.second != uid); });
}

bool Model::FreePort(std::size_t adapter, const Address& local) const {
  for (std::uint32_t port = settings_.ephemeral_first; port <= settings_.ephemeral_last; ++port) {
    const Key key{adapter, local.WithPort(static_cast<std::uint16_t>(port))};
    if (!Conflicts(key, nullptr) && !KeptFor(key, {})) return true;
  }
  return false;
}

StatusCode Model::Quota(const Session& s, Kind kind) const {
  const core::Limits limits = policy_.LimitsOf(s.who);
  std::optional<std::uint32_t> limit;
  if (kind == Kind::kConnector) limit = limits.connectors;
  if (kind == Kind::kListener) limit = limits.listeners;
  if (kind == Kind::kPair) limit = limits.queue_pairs;
  if (kind == Kind::kEndpoint) limit = limits.shared_endpoints;
  const auto held = std::ranges::count_if(things_, [&](const auto& t) {
    return t.second.kind == kind && sessions_.at(t.second.session).who.uid == s.who.uid;
  });
  return limit && held >= *limit ? Code::kInsufficientResources : Code::kSuccess;
}

StatusCode Model::QuotaOfPorts(const Session& s) const {
  const auto limit = policy_.LimitsOf(s.who).ports;
  const auto held = std::ranges::count_if(
      ports_, [&](const auto& p) { return p.second.uid == s.who.uid && !p.second.lease; });
  return limit && held >= *limit ? Code::kInsufficientResources : Code::kSuccess;
}

// Port 0 stays open until the core reports its choice; see Choose.
StatusCode Model::Take(Thing& thing, const Address& local) {
  const Session& s = sessions_.at(thing.session);
  if (local.port() != 0 && local.port() < settings_.privileged_ports_below && s.who.uid != 0) {
    return Code::kAccessDenied;
  }
  if (local.port() == 0) {
    if (!FreePort(thing.adapter, local) || !HasShare(s, thing.adapter, local)) return Code::kTooManyAddresses;
    if (const Code full = QuotaOfPorts(s); full != Code::kSuccess) return full;
    thing.any = true;
    ++thing.candidates;
    thing.local = local;  // Without a port it is not known yet.
    return Code::kSuccess;
  }
  const Key key{thing.adapter, local};
  if (const auto held = ports_.find(key); held != ports_.end()) {
    Port& port = held->second;
    const bool own_binding = port.uid == s.who.uid && port.pid == s.who.pid && !port.reserving &&
                             thing.kind == Kind::kConnector && settings_.allow_same_owner_bind_sharing &&
                             !port.lease && port.kind != Kind::kEndpoint && !port.closing;
    const bool comes_back =
        !port.reserving && port.reattached && port.session == thing.session && thing.kind == Kind::kListener;
    if (own_binding || comes_back) {
      if (comes_back) {
        port.kind = Kind::kListener;
        port.holder = thing.id;
        port.reattached = false;
      }
      thing.hold = key;
      thing.local = local;
      return Code::kSuccess;
    }
  }
  if (KeptFor(key, s.who.uid) || Conflicts(key, &s.who)) return Code::kSharingViolation;
  const bool returns = std::ranges::any_of(ports_, [&](const auto& p) {
    return p.second.lease && Same(p.first, key) && KeptForProcess(p.second, s.who);
  });
  if (!returns && !HasShare(s, thing.adapter, local)) return Code::kInsufficientResources;
  if (const Code full = QuotaOfPorts(s); full != Code::kSuccess) return full;
  thing.local = local;
  Choose(thing, local);
  return Code::kSuccess;
}

// Gives the place to the thing.
void Model::Choose(Thing& thing, const Address& chosen) {
  const Key key{thing.adapter, chosen};
  const Session& s = sessions_.at(thing.session);
  if (thing.any) {
    Check(chosen.same_ip(thing.local) && chosen.port() >= settings_.ephemeral_first &&
              chosen.port() <= settings_.ephemeral_last,
          "b.3: " + chosen.ToString() + " is no ephemeral port of " + thing.local.IpToString());
    Check(!Conflicts(key, nullptr) && !KeptFor(key, {}),
          "I1: the ephemeral port " + chosen.ToString() + " was held already");
  }
  // Leases of the caller at this place are released.
  std::erase_if(ports_, [&](const auto& p) { return p.second.lease && Same(p.first, key); });
  Port port;
  port.kind = thing.kind;
  port.holder = thing.id;
  port.session = thing.session;
  port.uid = s.who.uid;
  port.pid = s.who.pid;
  port.born = s.who.born;
  port.reattached = thing.reattaching;
  ports_[key] = port;
  thing.hold = key;
  thing.local = chosen;
}

bool Model::Reserve(Thing& thing) {
  if (!adapters_[thing.adapter].description.reserve_ports) return false;
  if (thing.hold && ports_.at(*thing.hold).reserved) return false;
  const auto* asked = Seen<core::CmReserve>([&](const core::CmReserve& a) {
    return a.adapter == Info(thing).name && a.local.same_ip(thing.local) &&
           (thing.any || a.local == thing.local) && !reservations_.contains(a.endpoint);
  });
  if (asked == nullptr) {
    Fail("the host port of " + thing.local.ToString() + " was not asked for");
    return false;
  }
  if (!thing.hold) Choose(thing, asked->local);
  Port& port = ports_.at(*thing.hold);
  port.reserving = port.reserved = true;
  thing.reserving = true;
  reservations_[asked->endpoint] = thing.id;
  return true;
}

void Model::Drop(Thing& thing) {
  if (thing.reserving) {
    std::erase_if(reservations_, [&](const auto& r) { return r.second == thing.id; });
    if (thing.hold) ports_.at(*thing.hold).reserving = false;
  }
  const std::optional<Key> hold = thing.hold;
  thing.hold.reset();
  thing.reserving = thing.any = false;
  thing.candidates = 0;
  if (!hold) return;
  const bool used = std::ranges::any_of(things_, [&](const auto& t) { return t.second.hold == hold; });
  if (!used) ports_.erase(*hold);
}

const Model::Thing* Model::TupleHolder(std::size_t adapter, const Address& local, const Address& remote,
                                       bool passive, bool* waiting) const {
  *waiting = false;
  for (const auto& [id, t] : things_) {
    if (t.adapter != adapter) continue;
    if (t.kind == Kind::kConnector && t.tuple && t.passive == passive && t.local == local &&
        t.remote == remote) {
      return &t;
    }
    if (t.kind != Kind::kListener || !passive) continue;
    for (const provider::InboundRequest& r : t.requests) {
      if (r.local != local || r.remote != remote) continue;
      *waiting = true;
      return &t;
    }
  }
  return nullptr;
}

bool Model::TupleTaken(std::size_t adapter, const Address& local, const Address& remote, bool passive,
                       const Thing* except) const {
  for (const bool role : {false, true}) {
    if (role != passive && settings_.allow_same_owner_bind_sharing) continue;
    bool waiting = false;
    const Thing* const holder = TupleHolder(adapter, local, remote, role, &waiting);
    if (holder != nullptr && (waiting || holder != except)) return true;
  }
  return false;
}

void Model::Reserved(Thing& t, StatusCode code) {
  const bool awaited = t.reserving;
  if (awaited) {
    t.reserving = false;
    ports_.at(*t.hold).reserving = false;
    if (code != Code::kSuccess) {
      t.tuple = false;
      const bool again = t.any && code == Code::kSharingViolation;
      const std::uint32_t tried = t.candidates;
      const Address asked = t.local.WithPort(0);
      Drop(t);
      if (again && tried >= 1u + settings_.ephemeral_last - settings_.ephemeral_first) {
        code = Code::kTooManyAddresses;
      } else if (again) {
        t.candidates = tried;
        code = Take(t, asked);
        if (code == Code::kSuccess && Reserve(t)) {
          t.tuple = t.state == C;
          return;
        }
      }
    }
  }
  if (t.kind == Kind::kConnector && t.state == C) {
    if (code != Code::kSuccess) FailConnect(t, code);
    return;
  }
  if (t.reattaching) {
    if (code == Code::kSuccess) {
      t.reattaching = false;
      Up(t);
      Finish(t, t.op, Code::kSuccess).learn = [this, id = t.id,
                                               pair = t.made_pair ? t.pair : 0](const core::Complete& c) {
        if (Thing* const thing = Find(id); thing != nullptr && !thing->handle)
          GiveName(*thing, c.reply.handle);
        Check((pair != 0) == static_cast<bool>(c.reply.queue_pair),
              "Reattach named a queue pair it did not make");
        if (Thing* const made = Find(pair); made != nullptr && !made->handle)
          GiveName(*made, c.reply.queue_pair);
      };
    } else {
      Finish(t, t.op, code);
      t.closing = true;
      DestroyConnector(t);
    }
    return;
  }
  if (code != Code::kSuccess) {
    Finish(t, t.op, code);
    t.local = {};
    t.events = false;
    if (t.hold) Drop(t);
    t.any = false;
    t.candidates = 0;
    if (t.kind == Kind::kEndpoint) {
      t.closing = true;
      MaybeFinishClose(t.id);
    }
    return;
  }
  const auto learn_port = [this, id = t.id](const core::Complete& c) {
    Thing* const thing = Find(id);
    if (thing == nullptr) return;
    if (!thing->hold) Choose(*thing, c.reply.address);
    Check(c.reply.address == thing->local, "the completion names another local address than the tables");
    if (thing->kind == Kind::kEndpoint) {
      if (!thing->handle) GiveName(*thing, c.reply.handle);
    }
  };
  if (t.kind == Kind::kConnector) {
    Move(t, B);
    t.persistent = true;
  }
  if (t.kind == Kind::kListener) {
    t.bound = true;
    if (t.then_listen) StartListening(t);
  }
  Finish(t, t.op, Code::kSuccess).learn = learn_port;
}

}  // namespace nd::sim
