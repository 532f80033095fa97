// SPDX-License-Identifier: Apache-2.0
// Sessions: who may have one, at-most-once operations, and the reclaim of everything when a client dies.
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"

namespace nd::core {

Session* Broker::Impl::FindSession(SessionId id) {
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : &found->second;
}

Session& Broker::Impl::SessionOf(SessionId id) {
  Session* const session = FindSession(id);
  ND_CORE_CHECK(session != nullptr);
  return *session;
}

void Broker::Impl::EndSessionNow(Session& s, Status why) {
  if (s.ending) return;
  s.ending = true;
  Note(Notice::Level::kWarning, "session.ending", Show(s.id), why.ToString());
  Emit(EndSession{s.id, std::move(why)});
}

void Broker::Impl::On(const SessionOpened& event) {
  if (sessions_.contains(event.session)) return;
  Session& s = sessions_[event.session];
  s.id = event.session;
  s.who = event.identity;
  s.opened = now_;
  Status why = Draining();
  std::optional<Quota::Token> charge;
  if (why.ok()) charge = Charge(s, Resource::kSessions, &why);
  if (!charge) {
    EndSessionNow(s, std::move(why));
    return;
  }
  s.charge = std::move(*charge);
  Note(Notice::Level::kInfo, "session.opened", Show(s.id),
       "Process " + std::to_string(s.who.pid) + " (" + s.who.command + ") of uid " +
           std::to_string(s.who.uid) + ".");
}

void Broker::Impl::On(const SessionClosed& event) {
  Session* const s = FindSession(event.session);
  if (s == nullptr) return;
  s->ending = true;
  s->ended_because = event.why;
  // What has not left yet must not be sent by the room that the others make.
  for (const auto& [sequence, handle] : s->objects) {
    if (Connector* const c = Find<Connector>(handle)) LeaveQueue(*c);
  }
  // Successors first, so that nothing ever names something that is gone.
  for (const ObjectKind kind : {ObjectKind::kConnector, ObjectKind::kQueuePair, ObjectKind::kSharedEndpoint,
                                ObjectKind::kListener, ObjectKind::kAdapter}) {
    std::vector<Handle> handles;
    for (const auto& [sequence, handle] : s->objects) {
      if (FindAny(handle)->kind == kind) handles.push_back(handle);
    }
    for (const Handle handle : handles) {
      Object* const object = FindAny(handle);
      if (object != nullptr) Reclaim(*object);
    }
  }
  ND_CORE_CHECK(s->objects.empty());
  ND_CORE_CHECK(s->ops.running() == 0);
  Note(Notice::Level::kInfo, "session.closed", Show(event.session),
       "Process " + std::to_string(s->who.pid) + " (" + s->who.command + ").");
  sessions_.erase(event.session);
  LaunchQueued();
}

void Broker::Impl::On(const ClientOp& event) {
  Session* const s = FindSession(event.session);
  if (s == nullptr || s->ending) return;
  const auto* const report = std::get_if<TransportReportOp>(&event.op);
  if (event.op_id == 0 && report != nullptr) {  // Nobody wants to hear what became of it.
    Do(*s, Pending{}, *report);
    LaunchQueued();
    return;
  }
  if (event.op_id == 0) {
    EndSessionNow(*s, {StatusCode::kInvalidParameter, "An operation has the id 0, which is not allowed.",
                       Detail::kProtocol});
    return;
  }
  switch (s->ops.Lookup(event.op_id)) {
    case OpLog::Known::kRunning:
      return;
    case OpLog::Known::kDone:
      Emit(s->ops.Done(event.op_id));
      return;
    case OpLog::Known::kNew:
      break;
  }
  ++s->operations;
  Pending pending{event.op_id, next_sequence_++};
  s->ops.Begin(pending.op_id, pending.sequence);
  waiting_.insert({pending.sequence, now_});
  if (s->ops.running() > kMaxPendingOps) {
    Finish(s->id, pending,
           {StatusCode::kInsufficientResources, "Too many operations wait in this session.", Detail::kQuota});
    return;
  }
  std::visit([&](const auto& op) { Do(*s, pending, op); }, event.op);
  LaunchQueued();
}

void Broker::Impl::Finish(SessionId session, Pending& pending, Status status, Reply reply) {
  if (!pending) return;
  ND_CORE_CHECK(!status.pending());
  const std::size_t erased = waiting_.erase(pending.sequence);
  ND_CORE_CHECK(erased == 1);
  if (!status.ok()) ++failures_[status.code()];
  Session& s = SessionOf(session);
  Complete complete{session, pending.op_id, std::move(status), std::move(reply)};
  pending = {};
  s.ops.End(complete);
  // A dead client hears nothing any more.
  if (!s.ending) Emit(std::move(complete));
}

}  // namespace nd::core
