// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/hello.h"

#include <utility>

#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/service/cgroup_name.h"

namespace nd::service {

Result<HelloFacts> HelloFrom(const pb::ClientMessage& message, const Peer& peer, const std::string& version) {
  Result<HelloRequest> hello = DecodeHello(message);
  if (message.op_id() == 0 && hello.ok())
    hello = Status(StatusCode::kInvalidParameter, "op_id must not be 0");
  if (!hello.ok()) {
    ops::LogWarning("hello refused", "uid " + std::to_string(peer.uid) + " (pid " + std::to_string(peer.pid) +
                                         "): " + hello.status().ToString());
    return hello.status();
  }
  HelloFacts facts;
  facts.op_id = message.op_id();
  facts.token = std::move(hello->token);
  facts.socket_cookie = peer.cookie;
  facts.broker_version = version;
  core::Identity& who = facts.identity;
  who.pid = peer.pid;
  who.uid = peer.uid;
  who.gid = peer.gid;
  who.command = ops::CommandOf(peer.pid);
  // Users name groups below their own as they like.
  who.cgroup = ops::Printable(CgroupPath(ops::CgroupsOf(peer.pid)), 4096);
  who.application = std::move(hello->application);
  CgroupOwner owner = OwnerOfCgroup(who.cgroup);
  who.unit = std::move(owner.unit);
  who.container = std::move(owner.container);
  who.born = ops::BornOf(peer.pid);
  return facts;
}

}  // namespace nd::service
