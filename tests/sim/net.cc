// SPDX-License-Identifier: Apache-2.0
// Simulates the kernel and the network of a connection.
#include "tests/sim/net.h"

#include <algorithm>
#include <cerrno>
#include <utility>

namespace nd::sim {
namespace {

// The value of TCP_USER_TIMEOUT and keep-alive.
constexpr Duration kDeadPeer = std::chrono::seconds(30);
constexpr Duration kSynTimeout = std::chrono::seconds(127);

}  // namespace

const char* Name(Owner owner) {
  constexpr const char* kNames[] = {"broker", "message", "application", "foreign"};
  return kNames[static_cast<int>(owner)];
}

Net::End* Net::Find(EndId end) {
  const auto found = ends_.find(end);
  return found == ends_.end() ? nullptr : &found->second;
}
const Net::End* Net::Find(EndId end) const {
  return const_cast<Net*>(this)->Find(end);
}

bool Net::Listen(const Address& at, Acceptor acceptor) {
  return listeners_.emplace(at, std::move(acceptor)).second;
}

void Net::Draw(End& end) {
  const bool slow = dice_.Chance(faults.slow);
  end.delay = slow ? dice_.Millis(100, 3000) : dice_.Micros(20, 2000);
  end.shredded = dice_.Chance(faults.shredded);
  if (dice_.Chance(faults.reset)) end.reset_at = dice_.Below(dice_.Chance(500) ? 60 : 600);
  if (dice_.Chance(faults.blackhole)) end.hole_at = dice_.Below(dice_.Chance(500) ? 60 : 600);
}

EndId Net::Connect(const Address& local, const Address& remote, Owner owner, int host,
                   const std::function<void(int)>& answer) {
  const EndId id = next_;
  next_ += 2;
  End& a = ends_[id];
  a.owner = owner;
  a.host = host;
  if (owner == Owner::kForeign) foreign_.insert(id);
  Draw(a);
  const Duration delay = a.delay;
  const auto fail = [this, id, answer](int error) {
    if (IsOpen(id)) answer(error);
  };
  if (dice_.Chance(faults.lost_syn)) {
    schedule_.After(kSynTimeout, [fail] { fail(ETIMEDOUT); });
    return id;
  }
  if (dice_.Chance(faults.unreachable)) {
    constexpr int kErrors[] = {EHOSTUNREACH, ENETUNREACH, EADDRNOTAVAIL, EPERM, ENOBUFS};
    const int error = kErrors[dice_.Below(5)];
    schedule_.After(delay, [fail, error] { fail(error); });
    return id;
  }
  schedule_.After(delay, [this, id, local, remote, delay, fail, answer] {
    if (!IsOpen(id)) return;
    const auto listener = listeners_.find(remote);
    if (listener == listeners_.end()) {
      schedule_.After(delay, [fail] { fail(ECONNREFUSED); });
      return;
    }
    End& b = ends_[id + 1];
    b.owner = Owner::kBroker;
    b.connected = true;
    Draw(b);
    Find(id)->connected = true;
    schedule_.After(delay, [this, id, answer] {
      if (IsOpen(id)) answer(Error(id));
    });
    const Acceptor acceptor = listener->second;
    acceptor(id + 1, remote, local);
  });
  return id;
}

EndId Net::MakePair(Owner owner, int host) {
  const EndId id = next_;
  next_ += 2;
  for (const EndId side : {id, id + 1}) {
    End& end = ends_[side];
    end.owner = owner;
    end.host = host;
    end.connected = end.local = true;
    end.delay = dice_.Micros(1, 20);
  }
  return id;
}

void Net::Watch(EndId end, std::function<void()> changed) {
  if (End* e = Find(end)) e->changed = std::move(changed);
}

void Net::SetOwner(EndId end, Owner owner, int host) {
  End* const e = Find(end);
  if (e == nullptr) return;
  e->owner = owner;
  e->host = host;
  if (owner == Owner::kForeign) foreign_.insert(end);
}

std::span<const std::uint8_t> Net::Peek(EndId end) const {
  const End* const e = Find(end);
  if (e == nullptr) return {};
  return std::span(e->received).subspan(e->read);
}

void Net::Consume(EndId end, std::size_t count) {
  End* const e = Find(end);
  if (e == nullptr) return;
  e->read += count;
  if (e->read < e->received.size()) return;
  e->received.clear();
  e->read = 0;
}

bool Net::PeerFinished(EndId end) const {
  const End* const e = Find(end);
  return e != nullptr && (e->got_fin || e->error != 0);
}

bool Net::AtEnd(EndId end) const {
  const End* const e = Find(end);
  return e != nullptr && e->got_fin && e->read == e->received.size();
}

int Net::Error(EndId end) const {
  const End* const e = Find(end);
  return e == nullptr ? ECONNRESET : e->error;
}

void Net::Tell(EndId end) {
  const End* const e = Find(end);
  if (e == nullptr || !e->changed) return;
  const std::function<void()> changed = e->changed;  // A copy, because the callback may replace itself.
  changed();
}

Time Net::Arrival(End& from) {
  const Time soonest = schedule_.now() + from.delay + (from.local ? Duration{} : dice_.Micros(0, 500));
  from.last_arrival = std::max(from.last_arrival, soonest);
  return from.last_arrival;
}

void Net::Deliver(EndId to, Bytes bytes) {
  End* const e = Find(to);
  if (e == nullptr) return DeliverReset(PeerOf(to), std::chrono::microseconds(50), ECONNRESET);
  if (e->error != 0) return;
  e->received.insert(e->received.end(), bytes.begin(), bytes.end());
  bytes_delivered_ += bytes.size();
  Tell(to);
}

void Net::DeliverReset(EndId to, Duration delay, int error) {
  schedule_.After(delay, [this, to, error] {
    End* const e = Find(to);
    if (e == nullptr || e->error != 0) return;
    e->error = error;
    Tell(to);
  });
}

bool Net::Send(EndId end, std::span<const std::uint8_t> bytes) {
  End* const e = Find(end);
  if (e == nullptr || e->error != 0 || e->sent_fin || !e->connected) return false;
  if (!e->local && dice_.Chance(faults.shaken)) {
    (dice_.Chance(500) ? e->reset_at : e->hole_at) = e->sent + dice_.Below(64);
  }
  const EndId to = PeerOf(end);
  std::size_t at = 0;
  while (at < bytes.size() && !e->dead) {
    std::size_t piece = bytes.size() - at;
    if (e->shredded) {
      piece = std::min<std::size_t>(piece, 1 + dice_.Below(dice_.Chance(500) ? 3 : 90));
    }
    const std::uint64_t stop = std::min(e->reset_at, e->hole_at);
    if (e->sent + piece > stop) {
      piece = stop > e->sent ? static_cast<std::size_t>(stop - e->sent) : 0;
      e->dead = true;
    }
    Bytes part(bytes.begin() + static_cast<std::ptrdiff_t>(at),
               bytes.begin() + static_cast<std::ptrdiff_t>(at + piece));
    e->sent += piece;
    at += piece;
    const Time when = Arrival(*e);
    if (!part.empty()) {
      schedule_.At(when, [this, to, part = std::move(part)]() mutable { Deliver(to, std::move(part)); });
    }
    if (!e->dead) continue;
    if (e->reset_at <= e->hole_at) {
      schedule_.At(when, [this, to, end] {
        DeliverReset(to, Duration{}, ECONNRESET);
        DeliverReset(end, std::chrono::microseconds(100), ECONNRESET);
      });
    } else {
      Cut(end);
    }
  }
  return true;
}

void Net::Cut(EndId end) {
  for (const EndId side : {end, PeerOf(end)}) {
    if (End* e = Find(side)) e->dead = true;
    DeliverReset(side, kDeadPeer, ETIMEDOUT);
  }
}

bool Net::AllArrived(EndId end) const {
  const End* const e = Find(end);
  return e == nullptr || (!e->dead && e->last_arrival <= schedule_.now());
}

void Net::Shutdown(EndId end) {
  End* const e = Find(end);
  if (e == nullptr || e->sent_fin || !e->connected) return;
  e->sent_fin = true;
  if (e->dead || e->error != 0) return;
  const EndId to = PeerOf(end);
  schedule_.At(Arrival(*e), [this, to] {
    End* const peer = Find(to);
    if (peer == nullptr || peer->error != 0) return;
    peer->got_fin = true;
    Tell(to);
  });
}

void Net::Close(EndId end, bool reset) {
  End* const e = Find(end);
  if (e == nullptr) return;
  const bool unread = e->read < e->received.size();
  if (e->connected && !e->dead && e->error == 0) {
    if (reset || unread) {
      const EndId to = PeerOf(end);
      schedule_.At(Arrival(*e), [this, to] { DeliverReset(to, Duration{}, ECONNRESET); });
    } else {
      Shutdown(end);
    }
  }
  ends_.erase(end);
}

std::size_t Net::CountOwned(Owner owner, int host) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      ends_, [&](const auto& e) { return e.second.owner == owner && e.second.host == host; }));
}

std::string Net::Describe() const {
  std::string text;
  for (const auto& [id, end] : ends_) {
    text += "end " + std::to_string(id) + " of " + Name(end.owner) + " on host " + std::to_string(end.host);
    text += end.connected ? "" : " (connecting)";
    text += "\n";
  }
  return text;
}

}  // namespace nd::sim
