// SPDX-License-Identifier: Apache-2.0
// Sessions: admission, at-most-once operations, and the reclaim of all objects when a client ends.
#include <algorithm>
#include <utility>

#include "daemon/core/check.h"
#include "daemon/core/impl.h"
#include "session/ahead.h"

namespace nd::core {
namespace {

std::optional<session::Operation> WithHandles(const Session& s, const session::Operation& op) {
  if (s.made_by.empty()) return std::nullopt;
  return session::WithHandles(op, [&s](OpId made_by) {
    const auto found = s.made_by.find(made_by);
    return found == s.made_by.end() ? Handle{} : found->second;
  });
}

}  // namespace

void Broker::Impl::EndSessionNow(Session& s, Status why) {
  if (s.ending) return;
  s.ending = true;
  Note(Notice::Level::kWarning, "session.ending", Show(s.id), why.ToString());
  Emit(EndSession{s.id, std::move(why)});
}

void Broker::Impl::On(const SessionOpened& event) {
  if (HasSession(event.session)) return;
  Session& s = sessions_.Add(event.session, event.identity, now_);
  Status why = Draining();
  std::optional<Quota::Token> charge;
  if (why.ok()) charge = Charge(s, Resource::kSessions, &why);
  if (!charge) {
    EndSessionNow(s, std::move(why));
    return;
  }
  s.charge = std::move(*charge);
  Note(Notice::Level::kInfo, "session.opened", Show(s.id),
       "Process " + std::to_string(s.who().pid) + " (" + s.who().command + ") of uid " +
           std::to_string(s.who().uid) + ".");
}

void Broker::Impl::On(const SessionClosed& event) {
  Session* const s = sessions_.Find(event.session);
  if (s == nullptr || s->closed) return;
  sessions_.Close(*s, event.why);
  ReleaseSpares(*s);
  if (!event.why.ok()) LetConnectionsReturn(*s);
  On(ReclaimSome{});
}

void Broker::Impl::On(const ReclaimSome& event) {
  if (event.slice != 0) reclaim_slice_ = event.slice;
  if (Session* const s = sessions_.NextToReclaim()) {
    if (ReclaimSlice(*s)) {
      Note(Notice::Level::kInfo, "session.closed", Show(s->id),
           "Process " + std::to_string(s->who().pid) + " (" + s->who().command + ").");
      sessions_.Erase(*s);
    } else {
      sessions_.ReclaimLater(*s);
    }
  }
  LaunchWaiting();
}

bool Broker::Impl::ReclaimSlice(Session& s) {
  std::uint32_t left = std::max(reclaim_slice_, 1u);
  const auto spend = [&left] { return left-- > 0; };
  // Successors first, so that no object refers to a destroyed one.
  for (const ObjectKind kind : {ObjectKind::kConnector, ObjectKind::kQueuePair, ObjectKind::kSharedEndpoint,
                                ObjectKind::kListener, ObjectKind::kAdapter}) {
    const Session::Objects& objects = s.Of(kind);
    while (!objects.empty()) {
      const Handle handle = objects.begin()->second;
      if (Connector* const c = Find<Connector>(handle)) {
        for (; !c->notifies.empty(); c->notifies.pop_back()) {
          if (!spend()) return false;
          Finish(s.id, c->notifies.back(), {StatusCode::kCanceled, "The session ended."});
        }
      }
      if (Listener* const l = Find<Listener>(handle)) {
        while (l->queue.requests() > 0) {
          if (!spend()) return false;
          RefuseOldest(*l, Detail::kListenerClosed);
        }
      }
      if (!spend()) return false;
      Reclaim(*FindAny(handle));
      ND_CORE_CHECK(FindAny(handle) == nullptr);
    }
  }
  return true;
}

void Broker::Impl::On(const ClientOp& event) {
  Session* const s = sessions_.Find(event.session);
  if (s == nullptr || s->ending) return;
  const auto* const report = std::get_if<TransportReportOp>(&event.op);
  if (event.op_id == 0 && report != nullptr) {  // An operation of this kind has no completion.
    const auto known = WithHandles(*s, event.op);
    Do(*s, Pending{}, known ? std::get<TransportReportOp>(*known) : *report);
    return;
  }
  if (event.op_id == 0) {
    EndSessionNow(*s, {StatusCode::kInvalidParameter, "An operation has the id 0, which is not allowed.",
                       Detail::kProtocol});
    return;
  }
  switch (s->ops().Lookup(event.op_id)) {
    case OpLog::Known::kRunning:
      return;
    case OpLog::Known::kDone:
      Emit(s->ops().Done(event.op_id));
      return;
    case OpLog::Known::kNew:
      break;
  }
  Pending pending{event.op_id, next_sequence_++};
  if (!sessions_.Begin(*s, pending, now_) && !session::IsMadeAhead(event.op)) {
    Finish(s->id, pending,
           {StatusCode::kInsufficientResources,
            "User " + std::to_string(UserOf(s->who())) + " has " + std::to_string(Quota::kOperationsPerUser) +
                " operations pending in all sessions together; wait for some or cancel them.",
            Detail::kQuota});
    return;
  }
  const auto run = [&](const session::Operation& named) {
    std::visit([&](const auto& op) { Do(*s, pending, op); }, named);
  };
  const auto known = WithHandles(*s, event.op);
  run(known ? *known : event.op);
  LaunchWaiting();
}

void Broker::Impl::Finish(SessionId session, Pending& pending, Status status, Reply&& reply) {
  if (!pending) return;
  ND_CORE_CHECK(!status.pending());
  Session& s = SessionOf(session);
  // An ended client gets no completions.
  std::optional<Complete> kept;
  Complete& complete = s.ending ? kept.emplace() : output_.Make<Complete>();
  complete.op_id = pending.op_id;
  complete.status = std::move(status);
  complete.reply = std::move(reply);
  complete.session = session;
  sessions_.End(pending, s, complete);
}

}  // namespace nd::core
