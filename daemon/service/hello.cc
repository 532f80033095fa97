// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/hello.h"

#include <utility>

#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"
#include "daemon/service/cgroup_name.h"
#include "session/check.h"

namespace nd::service {

Result<HelloFacts> HelloFrom(session::ClientMessage message, const Peer& peer, const std::string& version) {
  const session::OpId op_id = message.op_id;
  Result<session::Hello> hello = session::TakeHello(std::move(message));
  if (!hello.ok()) {
    ops::LogWarning("hello refused", "uid " + std::to_string(peer.uid) + " (pid " + std::to_string(peer.pid) +
                                         "): " + hello.status().ToString());
    return hello.status();
  }
  HelloFacts facts;
  facts.op_id = op_id;
  facts.token.assign(hello->token.begin(), hello->token.end());
  facts.socket_cookie = peer.cookie;
  facts.broker_version = version;
  core::Identity& who = facts.identity;
  who.pid = peer.pid;
  who.uid = peer.uid;
  who.gid = peer.gid;
  who.command = ops::CommandOf(peer.pid);
  // Users choose the names of groups below their own, so they are sanitized.
  who.cgroup = ops::Printable(CgroupPath(ops::CgroupsOf(peer.pid)), 4096);
  who.application = std::move(hello->application);
  who.features = hello->features;
  CgroupOwner owner = OwnerOfCgroup(who.cgroup);
  who.unit = std::move(owner.unit);
  who.container = std::move(owner.container);
  // The session ends with the process that made its lane, so the pid cannot be reused meanwhile.
  who.foreign_namespace = ForeignNamespacesOf(peer, -1).any();
  who.born = ops::BornOf(peer.pid);
  return facts;
}

}  // namespace nd::service
