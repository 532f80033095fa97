// SPDX-License-Identifier: Apache-2.0
// The results of Listen, ControlConnectEvents and GetConnectionRequest.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

}  // namespace

void Model::Do(SessionId s, OpId op, const core::ListenOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Code code = Code::kSuccess;
  if (l == nullptr) {
    code = Code::kInvalidHandle;
  } else if (l->removed) {
    code = Code::kDeviceRemoved;
  } else if (o.local && !o.local->well_formed()) {
    code = Code::kInvalidAddress;
  } else if (l->bound == o.local.has_value() || l->listening || l->op != 0) {
    code = Code::kInvalidDeviceState;
  } else {
    if (o.local) code = CheckLocal(sessions_.at(s), l->adapter, *o.local, true);
    const Address& local = o.local ? *o.local : l->local;
    if (code == Code::kSuccess && !policy_.MayListen(sessions_.at(s).who, local).allowed) {
      code = Code::kAccessDenied;
    }
    if (code == Code::kSuccess && draining_) code = Code::kDeviceNotReady;
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  l->asked_backlog = o.backlog;
  l->events = o.connect_events;
  if (!o.local) {
    StartListening(*l);
    End(s, op, Code::kSuccess).address = l->local;
    return;
  }
  l->op = op;
  l->then_listen = true;
  code = Take(*l, *o.local);
  if (code != Code::kSuccess || !Reserve(*l)) Reserved(*l, code);
}

void Model::Do(SessionId s, OpId op, const core::ControlConnectEventsOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Code code = Code::kSuccess;
  if (l == nullptr) {
    code = Code::kInvalidHandle;
  } else if (l->removed) {
    code = Code::kDeviceRemoved;
  } else if (!l->listening) {
    code = Code::kInvalidDeviceState;
  } else {
    l->paused = o.pause;
  }
  End(s, op, code);
}

void Model::Do(SessionId s, OpId op, const core::GetConnectionRequestOp& o) {
  Thing* const l = Own(s, o.listener, Kind::kListener);
  Thing* const c = Own(s, o.connector, Kind::kConnector);
  Code code = Code::kSuccess;
  if (l == nullptr || c == nullptr || c->reattaching) {
    code = Code::kInvalidHandle;
  } else if (l->removed || c->removed) {
    code = Code::kDeviceRemoved;
  } else if (l->adapter != c->adapter) {
    code = Code::kInvalidParameter2;
  } else if (!l->listening || l->events) {
    code = Code::kInvalidDeviceState;
  } else {
    code = Judge(kGet, *c);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  c->op = op;
  c->refusal_data = false;
  if (!l->requests.empty()) {
    const provider::InboundRequest oldest = l->requests.front();
    l->requests.pop_front();
    return Deliver(*c, *l, oldest);
  }
  Move(*c, W);
  c->waits_at = l->id;
  l->gets.push_back(c->id);
}
}  // namespace nd::sim
