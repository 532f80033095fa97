// SPDX-License-Identifier: Apache-2.0
// The results of operations on objects and addresses. model_connect.cc, model_listen.cc and
// model_transport.cc have the others. The order of checks: handle, adapter removed, shape, state, queue pair,
// address, 4-tuple, resources.
#include <algorithm>
#include <utility>

#include "tests/sim/model.h"

namespace nd::sim {
namespace {

using Code = StatusCode;

}  // namespace

Model::Thing* Model::Own(SessionId session, Handle handle, std::optional<Kind> kind) {
  Thing* const thing = ByHandle(handle);
  if (thing == nullptr || thing->session != session || thing->closing) return nullptr;
  return kind && thing->kind != *kind ? nullptr : thing;
}

Model::Thing* Model::UsableAdapter(SessionId s, OpId op, Handle handle) {
  Thing* const adapter = Own(s, handle, Kind::kAdapter);
  if (adapter == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return nullptr;
  }
  if (!adapters_[adapter->adapter].present || !adapters_[adapter->adapter].enabled) {
    End(s, op, Code::kDeviceRemoved);
    return nullptr;
  }
  return adapter;
}

Model::Thing* Model::UsableConnector(SessionId s, OpId op, Handle handle) {
  Thing* const c = Own(s, handle, Kind::kConnector);
  if (c == nullptr || c->reattaching) {
    End(s, op, Code::kInvalidHandle);
    return nullptr;
  }
  if (c->removed) {
    End(s, op, Code::kDeviceRemoved);
    return nullptr;
  }
  return c;
}

void Model::Do(SessionId s, OpId op, const core::ListAdaptersOp&) {
  End(s, op, Code::kSuccess);
}

void Model::Do(SessionId s, OpId op, const core::OpenAdapterOp& o) {
  const Session& session = sessions_.at(s);
  const bool by_address = o.name.empty() && o.local.family() != Address::Family::kUnspecified;
  for (std::size_t no = 0; no < adapters_.size(); ++no) {
    const Adapter& a = adapters_[no];
    if (!a.present || (!o.name.empty() && a.description.info.name != o.name)) continue;
    if (by_address && CheckLocal(session, no, o.local, false) != Code::kSuccess) continue;
    if (!a.enabled) {
      End(s, op, Code::kDeviceNotReady);
      return;
    }
    Thing& made = Make(Kind::kAdapter, s, no, 0);
    End(s, op, Code::kSuccess).learn = [this, id = made.id](const core::Complete& c) {
      GiveName(*Find(id), c.reply.handle);
    };
    return;
  }
  End(s, op, Code::kInvalidParameter);
}

void Model::Do(SessionId s, OpId op, const core::ResolveAddressOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  if (!o.remote.well_formed()) {
    End(s, op, Code::kInvalidAddress);
    return;
  }
  bool known = !sessions_.at(s).who.foreign_network;
  known = known && std::ranges::any_of(Info(*adapter).addresses,
                                       [&](const Address& a) { return a.family() == o.remote.family(); });
  End(s, op, known ? Code::kSuccess : Code::kNetworkUnreachable);
}

void Model::Do(SessionId s, OpId op, const core::CheckAddressOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  const bool known = o.local.family() == Address::Family::kIpv4 || o.local.family() == Address::Family::kIpv6;
  End(s, op,
      known && !o.local.well_formed() ? Code::kInvalidParameter2
                                      : CheckLocal(sessions_.at(s), adapter->adapter, o.local, false));
}

void Model::Create(Kind kind, SessionId s, OpId op, Handle handle) {
  const Thing* const adapter = UsableAdapter(s, op, handle);
  if (adapter == nullptr) return;
  if (const Code full = Quota(sessions_.at(s), kind); full != Code::kSuccess) {
    End(s, op, full);
    return;
  }
  Thing& made = Make(kind, s, adapter->adapter, adapter->id);
  End(s, op, Code::kSuccess).learn = [this, id = made.id](const core::Complete& c) {
    GiveName(*Find(id), c.reply.handle);
  };
}

void Model::Do(SessionId s, OpId op, const core::CreateQueuePairOp& o) {
  const Thing* const adapter = Own(s, o.adapter, Kind::kAdapter);
  const bool usable =
      adapter != nullptr && adapters_[adapter->adapter].present && adapters_[adapter->adapter].enabled;
  if (usable && o.receive_depth > Info(*adapter).max_receive_queue_depth) {
    End(s, op, Code::kInvalidParameter5);
  } else if (usable && o.initiator_depth > Info(*adapter).max_initiator_queue_depth) {
    End(s, op, Code::kInvalidParameter6);
  } else {
    Create(Kind::kPair, s, op, o.adapter);
  }
}
void Model::Do(SessionId s, OpId op, const core::CreateConnectorOp& o) {
  Create(Kind::kConnector, s, op, o.adapter);
}
void Model::Do(SessionId s, OpId op, const core::CreateListenerOp& o) {
  Create(Kind::kListener, s, op, o.adapter);
}

void Model::Do(SessionId s, OpId op, const core::CreateSharedEndpointOp& o) {
  const Thing* const adapter = UsableAdapter(s, op, o.adapter);
  if (adapter == nullptr) return;
  const Session& session = sessions_.at(s);
  Code bad = CheckLocal(session, adapter->adapter, o.local, false);
  if (bad == Code::kSuccess) bad = MayBind(session, adapter->adapter, o.local);
  if (bad == Code::kSuccess) bad = Quota(session, Kind::kEndpoint);
  if (bad != Code::kSuccess) {
    End(s, op, bad);
    return;
  }
  Thing& e = Make(Kind::kEndpoint, s, adapter->adapter, adapter->id);
  e.op = op;
  const Code taken = Take(e, o.local);
  if (taken != Code::kSuccess || !Reserve(e)) Reserved(e, taken);
}

void Model::Do(SessionId s, OpId op, const core::CloseOp& o) {
  Thing* const thing = Own(s, o.handle, std::nullopt);
  if (thing == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return;
  }
  thing->close_op = op;
  CloseThing(*thing, o.ndk);
}

void Model::Do(SessionId s, OpId op, const core::BindOp& o) {
  Thing* const t = Own(s, o.handle, std::nullopt);
  Code code = Code::kSuccess;
  if (t == nullptr || (t->kind != Kind::kConnector && t->kind != Kind::kListener)) {
    code = Code::kInvalidHandle;
  } else if (t->removed) {
    code = Code::kDeviceRemoved;
  } else if (!o.local.well_formed()) {
    code = Code::kInvalidAddress;
  } else if (t->kind == Kind::kListener) {
    if (t->bound || t->listening || t->hold) code = Code::kAddressAlreadyAssociated;
  } else {
    code = Judge(kBind, *t);
  }
  if (code != Code::kSuccess) {
    End(s, op, code);
    return;
  }
  t->op = op;
  t->then_listen = false;
  code = CheckLocal(sessions_.at(s), t->adapter, o.local, t->kind == Kind::kListener);
  if (code == Code::kSuccess) code = MayBind(sessions_.at(s), t->adapter, o.local);
  if (code == Code::kSuccess) code = Take(*t, o.local);
  if (code != Code::kSuccess || !Reserve(*t)) Reserved(*t, code);
}

void Model::Do(SessionId s, OpId op, const core::GetReadLimitsOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kLimits, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.limits = c->limits;
}

void Model::Do(SessionId s, OpId op, const core::GetPrivateDataOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kData, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.data = c->data;
}

void Model::Do(SessionId s, OpId op, const core::GetPeerAddressOp& o) {
  const Thing* const c = UsableConnector(s, op, o.connector);
  if (c == nullptr) return;
  const Code code = Judge(kPeer, *c);
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.address = c->remote;
}

void Model::Do(SessionId s, OpId op, const core::GetLocalAddressOp& o) {
  const Thing* const t = Own(s, o.handle, std::nullopt);
  Code code = Code::kInvalidHandle;
  if (t != nullptr && t->removed) {
    code = Code::kDeviceRemoved;
  } else if (t != nullptr && t->kind == Kind::kConnector && !t->reattaching) {
    code = Judge(kLocal, *t);
  } else if (t != nullptr && t->kind == Kind::kListener) {
    code = t->listening ? Code::kSuccess : Code::kInvalidDeviceState;
  } else if (t != nullptr && t->kind == Kind::kEndpoint && t->op == 0) {
    code = Code::kSuccess;
  }
  Expected& expected = End(s, op, code);
  if (code == Code::kSuccess) expected.address = t->local;
}

void Model::Do(SessionId s, OpId op, const core::CancelOp& o) {
  Thing* const t = Own(s, o.handle, std::nullopt);
  if (t == nullptr) {
    End(s, op, Code::kInvalidHandle);
    return;
  }
  End(s, op, Code::kSuccess);
  if (t->kind == Kind::kListener) {
    if (t->op != 0) {
      Finish(*t, t->op, Code::kCanceled);
      Drop(*t);
      t->local = {};
      t->events = false;
    }
    return CancelGets(*t, Code::kCanceled);
  }
  if (t->kind != Kind::kConnector) return;
  switch (t->state) {
    case U:
      CancelAll(*t, Code::kCanceled);
      if (!t->reserving) return;
      Drop(*t);
      t->local = {};
      return;
    case C:
    case K:
    case A:
      CancelAll(*t, Code::kCanceled);
      return Kill(*t);
    case W:
    case E:
      return CancelAll(*t, Code::kCanceled);
    case D:
      return FinishGoodbye(*t, Code::kCanceled);
    default:
      return;
  }
}
}  // namespace nd::sim
