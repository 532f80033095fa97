// SPDX-License-Identifier: Apache-2.0
// Operations that only read. The client library gets all the data and applies the size rules of buffers.
#include <utility>

#include "daemon/core/answers.h"
#include "daemon/core/impl.h"

namespace nd::core {

namespace {

Status Judged(StatusCode verdict, const Connector& c) {
  if (verdict == StatusCode::kSuccess) return {};
  return WrongState(verdict, c.state);
}

}  // namespace

void Broker::Impl::Do(Session& s, Pending p, const GetReadLimitsOp& op) {
  const Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching || c->removed) {
    Finish(s.id, p, c != nullptr && c->removed ? AdapterGone() : BadHandle());
    return;
  }
  Status status = Judged(VerdictOf(ConnectorOp::kGetReadLimits, *c), *c);
  Reply reply;
  if (status.ok()) reply.limits = c->limits;
  Finish(s.id, p, std::move(status), std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const GetPrivateDataOp& op) {
  const Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching || c->removed) {
    Finish(s.id, p, c != nullptr && c->removed ? AdapterGone() : BadHandle());
    return;
  }
  Status status = Judged(VerdictOf(ConnectorOp::kGetPrivateData, *c), *c);
  Reply reply;
  if (status.ok()) reply.private_data = c->data;
  Finish(s.id, p, std::move(status), std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const GetPeerAddressOp& op) {
  const Connector* const c = FindOwn<Connector>(s, op.connector);
  if (c == nullptr || c->reattaching || c->removed) {
    Finish(s.id, p, c != nullptr && c->removed ? AdapterGone() : BadHandle());
    return;
  }
  Status status = Judged(VerdictOf(ConnectorOp::kGetPeerAddress, *c), *c);
  Reply reply;
  if (status.ok()) reply.address = c->remote;
  Finish(s.id, p, std::move(status), std::move(reply));
}

void Broker::Impl::Do(Session& s, Pending p, const GetLocalAddressOp& op) {
  const Object* const object = FindAny(op.handle);
  if (object == nullptr || object->session != s.id || object->closing) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (object->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  Status status = BadHandle();
  Reply reply;
  switch (object->kind) {
    case ObjectKind::kConnector: {
      const Connector& c = static_cast<const Connector&>(*object);
      if (c.reattaching) break;
      status = Judged(VerdictOf(ConnectorOp::kGetLocalAddress, c), c);
      if (status.ok()) reply.address = c.local;
      break;
    }
    case ObjectKind::kListener: {
      const Listener& l = static_cast<const Listener&>(*object);
      const bool listening = l.state == Listener::State::kListening;
      status =
          listening ? Status::Ok() : Status(StatusCode::kInvalidDeviceState, "The listener does not listen.");
      if (listening) reply.address = l.local;
      break;
    }
    case ObjectKind::kSharedEndpoint: {
      const SharedEndpoint& e = static_cast<const SharedEndpoint&>(*object);
      if (e.op) break;
      status = {};
      reply.address = e.local;
      break;
    }
    default:
      break;
  }
  Finish(s.id, p, std::move(status), std::move(reply));
}

}  // namespace nd::core
