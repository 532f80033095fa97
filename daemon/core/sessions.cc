// SPDX-License-Identifier: Apache-2.0
#include "daemon/core/sessions.h"

#include <utility>

#include "daemon/core/check.h"

namespace nd::core {

Session& Sessions::Add(SessionId id, const Identity& who, Time now) {
  found_ = nullptr;
  Session& session = table_[id];
  session.id = id;
  session.who = who;
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
  submitted_.insert({pending.sequence, now});
  return quota_.AddOperation(UserOf(session.who)) <= Quota::kOperationsPerUser;
}

Complete Sessions::End(Pending& pending, SessionId id, Status status, Reply reply) {
  const std::size_t erased = submitted_.erase(pending.sequence);
  ND_CORE_CHECK(erased == 1);
  if (!status.ok()) ++failures_[status.code()];
  Session& session = At(id);
  const std::uint32_t user = UserOf(session.who);
  Complete complete{{pending.op_id, std::move(status), std::move(reply)}, id};
  pending = {};
  quota_.RemoveOperation(user);
  session.ops_.End(complete, session.remembered_.held() + quota_.FreeBytes(user));
  session.remembered_.Hold(&quota_, user, session.ops_.bytes());
  return complete;
}

std::optional<Time> Sessions::OldestPending() const {
  if (submitted_.empty()) return std::nullopt;
  return submitted_.begin()->second;
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
  table_.erase(session.id);
}

}  // namespace nd::core
