// SPDX-License-Identifier: Apache-2.0
// The passive side: Accept and Reject. broker_listen.cc has the requests.
#include <utility>

#include "daemon/core/address_rules.h"
#include "daemon/core/answers.h"
#include "daemon/core/check.h"
#include "daemon/core/impl.h"
#include "daemon/core/read_limits.h"

namespace nd::core {

void Broker::Impl::Do(Session& s, Pending p, const AcceptOp& op) {
  Connector* const c = FindOwn<Connector>(s, op.connector);
  QueuePair* const q = FindOwn<QueuePair>(s, op.queue_pair);
  if (c == nullptr || c->reattaching || q == nullptr) {
    Finish(s.id, p, BadHandle());
    return;
  }
  if (c->removed || q->removed) {
    Finish(s.id, p, AdapterGone());
    return;
  }
  const AdapterInfo& info = StateOf(*c).description.info;
  if (Status data = CheckPrivateData(op.private_data.size(), op.private_data_length, info.max_callee_data);
      !data.ok()) {
    Finish(s.id, p, std::move(data));
    return;
  }
  if (q->adapter_no != c->adapter_no) {
    Finish(s.id, p, {StatusCode::kInvalidParameter1, "The queue pair belongs to another adapter."});
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kAccept, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, verdict == c->ended.code() && !c->ended.ok() ? c->ended : WrongState(verdict, c->state));
    return;
  }
  if (Status busy = CheckQueuePair(*q); !busy.ok()) {
    Emit(CmReject{*c->cm, Detail::kPeerRejected, {}});
    ForgetCm(*c, false);
    Kill(*c, {ConnectionRecord::Outcome::kFailed, busy});
    Finish(s.id, p, std::move(busy));
    return;
  }
  LeaveBacklog(*c);
  c->queue_pair = q->handle;
  q->connector = c->handle;
  c->phases->End(Phase::kAccept, now_);
  c->limits = AcceptLimits(op.limits, c->offer, CapsOf(info));
  c->disconnect_event = op.disconnect_event;
  c->state = ConnectorState::kAccepting;
  c->op = p;
  ArmEstablish(*c);
  provider::AcceptParams params;
  params.limits = c->limits;
  params.private_data = op.private_data;
  params.device_qp = q->device_number;
  params.owner_uid = s.who().uid;
  params.owner_pid = s.who().pid;
  params.client = provider::ClientId{static_cast<std::uint64_t>(s.id)};
  params.extensions = (s.who().features & session::kClientExtensions) != 0;
  Emit(CmAccept{*c->cm, std::move(params)});
}

void Broker::Impl::Do(Session& s, Pending p, const RejectOp& op) {
  Connector* const c = UseConnector(s, p, op.connector);
  if (c == nullptr) return;
  const AdapterInfo& info = StateOf(*c).description.info;
  if (Status data = CheckPrivateData(op.private_data.size(), op.private_data_length, info.max_callee_data);
      !data.ok()) {
    Finish(s.id, p, std::move(data));
    return;
  }
  const StatusCode verdict = VerdictOf(ConnectorOp::kReject, *c);
  if (verdict != StatusCode::kSuccess) {
    Finish(s.id, p, verdict == c->ended.code() && !c->ended.ok() ? c->ended : WrongState(verdict, c->state));
    return;
  }
  Emit(CmReject{*c->cm, Detail::kPeerRejected, op.private_data});
  ForgetCm(*c, false);
  Kill(*c, {ConnectionRecord::Outcome::kFailed,
            {StatusCode::kConnectionRefused, "This application rejected the connection."}});
  Finish(s.id, p, {});
}

}  // namespace nd::core
