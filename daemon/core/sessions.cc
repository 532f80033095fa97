// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/sessions.h"

#include <algorithm>
#include <utility>

#include "daemon/core/check.h"

namespace nd::core {

bool Submissions::Remove(std::uint64_t sequence) {
  const bool last = !places_.empty() && places_.back().sequence == sequence;
  const auto place =
      last ? places_.end() - 1 : std::ranges::lower_bound(places_, sequence, {}, &Place::sequence);
  if (place == places_.end() || place->sequence != sequence || place->removed) return false;
  place->removed = true;
  ++removed_;
  for (; !places_.empty() && places_.back().removed; places_.pop_back()) --removed_;
  if (removed_ > places_.size() / 2) {
    std::erase_if(places_, [](const Place& p) { return p.removed; });
    removed_ = 0;
  }
  if (places_.empty() && places_.capacity() > kKept) places_ = {};
  return true;
}

std::optional<Time> Submissions::Oldest() const {
  const auto oldest = std::ranges::find(places_, false, &Place::removed);
  return oldest == places_.end() ? std::nullopt : std::optional(oldest->when);
}

Session& Sessions::Add(SessionId id, const Identity& who, Time now) {
  found_ = nullptr;
  Session& session = table_[id];
  session.id = id;
  session.identity = std::make_shared<const Identity>(who);
  session.opened = now;
  return session;
}

Session* Sessions::Find(SessionId id) {
  return const_cast<Session*>(std::as_const(*this).Find(id));
}

// An operation asks some times for its session.
const Session* Sessions::Find(SessionId id) const {
  if (found_ != nullptr && found_->id == id) return found_;
  const auto found = table_.find(id);
  found_ = found == table_.end() ? nullptr : &found->second;
  return found_;
}

Session& Sessions::At(SessionId id) {
  Session* const session = Find(id);
  ND_CORE_CHECK(session != nullptr);
  return *session;
}

const Session& Sessions::At(SessionId id) const {
  const Session* const session = Find(id);
  ND_CORE_CHECK(session != nullptr);
  return *session;
}

bool Sessions::Begin(Session& session, const Pending& pending, Time now) {
  ++session.operations_;
  session.ops_.Begin(pending.op_id, pending.sequence);
  submitted_.Add(pending.sequence, now);
  return quota_.AddOperation(UserOf(session.who())) <= Quota::kOperationsPerUser;
}

void Sessions::End(Pending& pending, Session& session, const Complete& complete) {
  const bool removed = submitted_.Remove(pending.sequence);
  ND_CORE_CHECK(removed);
  pending = {};
  if (!complete.status.ok()) ++failures_[complete.status.code()];
  const std::uint32_t user = UserOf(session.who());
  quota_.RemoveOperation(user);
  session.ops_.End(complete, session.remembered_.held() + quota_.FreeBytes(user));
  session.remembered_.Hold(&quota_, user, session.ops_.bytes());
}

void Sessions::Close(Session& session, const Status& why) {
  session.ending = session.closed = true;
  session.ended_because = why;
  reclaim_line_.push_front(session.id);
}

Session* Sessions::NextToReclaim() {
  if (reclaim_line_.empty()) return nullptr;
  Session& session = At(reclaim_line_.front());
  reclaim_line_.pop_front();
  return &session;
}

void Sessions::Erase(const Session& session) {
  ND_CORE_CHECK(session.ops_.running() == 0);
  found_ = nullptr;
  quota_.ForgetOperations(UserOf(session.who()));
  table_.erase(session.id);
}

}  // namespace nd::core
