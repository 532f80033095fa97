// SPDX-License-Identifier: Apache-2.0
// Clients of other network namespaces (foreign-network-namespaces): the sockets that they give, and the
// networks that are served with them.
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/os/given_socket.h"
#include "daemon/core/fair_share.h"
#include "daemon/ops/logging.h"
#include "daemon/shell/broker_shell.h"

namespace nd::service {
namespace {

// The most networks for all users together (docs/limits.md).
constexpr std::uint32_t kMostNetworks = 512;
// A held socket keeps the network namespace of a pod that has ended.
constexpr Duration kNetworkStays = std::chrono::seconds(10);
// Sockets for operations that have not arrived.
constexpr std::size_t kMostEarlySockets = 16;
constexpr std::string_view kNoRoom =
    "the broker has no room for the socket: it has reached its limit of open files";

}  // namespace

// The namespace of the lane counts: the process may have received the stream from another one.
bool BrokerShell::IsForeign(const Peer& peer) {
  return peer.network != 0 && peer.network != OwnNetwork();
}

bool BrokerShell::GivesSockets(const Peer& peer) const {
  return options_.config.broker.foreign_networks == ForeignNetworks::kServe && IsForeign(peer);
}

void BrokerShell::CloseGiven(std::uint32_t uid, std::vector<UniqueFd> sockets) {
  reaper_.Close(uid, std::move(sockets));
}

void BrokerShell::LaneSockets(core::SessionId id, std::uint64_t op_id, std::vector<UniqueFd> sockets) {
  ClientSession* const session = Find(id);
  if (session == nullptr) return;
  const std::uint32_t uid = session->peer().uid;
  const auto end = [&](const char* why) {
    CloseGiven(uid, std::move(sockets));
    EndSession(id, Status(StatusCode::kRemoteError, why));
  };
  if (!reaper_.HasRoom(uid)) return end("too many sockets of its user wait to be closed");
  if (op_id == 0 && sockets.empty()) {
    return EndSession(id, {StatusCode::kInsufficientResources, std::string(kNoRoom)});
  }
  if (op_id == 0) {
    if (session->stream != nullptr || session->on_lane || !session->network_sockets.empty()) {
      return end("it gave the sockets of its network namespace twice, or after Hello");
    }
    session->network_sockets = std::move(sockets);
    return;
  }
  if (session->network == 0) return end("it gave a socket for an operation before Hello");
  const std::size_t early = session->given_sockets.size();
  if (early >= kMostEarlySockets + session->pending.size()) {
    return end("it gave sockets for operations that it does not send");
  }
  if (session->given_sockets.contains(op_id) || session->pending.contains(op_id)) {
    return end("it gave a socket twice for one operation, or after the operation");
  }
  session->given_sockets.emplace(op_id, sockets.empty() ? UniqueFd() : std::move(sockets.front()));
}

Status BrokerShell::MayOpenNetwork(const Peer& peer) const {
  if (networks_.contains(peer.network)) return Status::Ok();
  const auto held = static_cast<std::uint32_t>(
      std::ranges::count_if(networks_, [&peer](const auto& entry) { return entry.second.uid == peer.uid; }));
  const auto all = static_cast<std::uint32_t>(networks_.size());
  if (core::WithinFairShare(kMostNetworks, kMostNetworks - all, held)) return Status::Ok();
  return {StatusCode::kInsufficientResources,
          "the broker serves " + std::to_string(all) + " network namespaces, at most " +
              std::to_string(kMostNetworks) + "; uid " + std::to_string(peer.uid) + " opened " +
              std::to_string(held) + " of them, which is its share. Another one is served " +
              "when sessions in some of them have ended.",
          Detail::kQuota};
}

Status BrokerShell::JoinNetwork(ClientSession& session) {
  if (session.network_sockets.empty()) return Status::Ok();
  const std::uint64_t network = session.peer().network;
  std::vector<UniqueFd> sockets = std::exchange(session.network_sockets, {});
  Status status = MayOpenNetwork(session.peer());
  if (!status.ok()) {
    CloseGiven(session.peer().uid, std::move(sockets));
  } else {
    status = manager_->OpenNetwork(network, std::move(sockets));
  }
  if (!status.ok()) {
    ops::LogWarning("hello refused", "uid " + std::to_string(session.peer().uid) + " (pid " +
                                         std::to_string(session.peer().pid) + "): " + status.ToString());
    return status;
  }
  session.network = network;
  Network& served =
      networks_.try_emplace(network, Network{.uid = session.peer().uid, .closing = {}}).first->second;
  ++served.sessions;
  if (served.closing) loop_.Cancel(*served.closing);
  served.closing.reset();
  return Status::Ok();
}

void BrokerShell::LeaveNetwork(ClientSession& session) {
  const std::uint32_t uid = session.peer().uid;
  std::vector<UniqueFd> left = std::exchange(session.network_sockets, {});
  for (auto& [op_id, socket] : session.given_sockets) {
    if (socket) left.push_back(std::move(socket));
  }
  session.given_sockets.clear();
  CloseGiven(uid, std::move(left));
  const auto served = networks_.find(session.network);
  if (served == networks_.end() || --served->second.sessions > 0) return;
  served->second.closing = loop_.At(loop_.clock().Now() + kNetworkStays, [this, network = session.network] {
    networks_.erase(network);
    manager_->CloseNetwork(network);
  });
}

void BrokerShell::Place(const ClientSession& session, core::Identity& who) const {
  who.network = session.network;
  if (session.network != 0 || !IsForeign(session.peer())) return;
  const ForeignNetworks rule = options_.config.broker.foreign_networks;
  if (rule == ForeignNetworks::kAllow) return;
  who.foreign_network = true;
  if (rule == ForeignNetworks::kServe) {
    who.network_problem = session.on_lane ? "Its libndbroker gave the broker no sockets of it; it is too old."
                                          : "A session by gRPC cannot give the broker sockets of it.";
  }
  ops::LogInfo("session of another network namespace: uid " + std::to_string(session.peer().uid) + " (pid " +
               std::to_string(session.peer().pid) +
               ") has no addresses (foreign-network-namespaces of [broker]). " + who.network_problem);
}

Status BrokerShell::CheckGiven(const ClientSession& session, core::OpId op_id) {
  const auto given = session.given_sockets.find(op_id);
  if (given == session.given_sockets.end()) return Status::Ok();
  if (!given->second) return {StatusCode::kInsufficientResources, std::string(kNoRoom)};
  const os::GivenFacts facts = os::FactsOf(given->second.get());
  std::string why = os::WhyUnfit(facts, session.network);
  if (why.empty() && facts.kind == os::GivenKind::kRoutes) {
    why = "a socket for routes was given; a fresh TCP socket was expected";
  }
  if (why.empty()) return Status::Ok();
  return {StatusCode::kInvalidParameter, std::move(why), Detail::kProtocol};
}

UniqueFd BrokerShell::TakeGiven(core::SessionId id, core::OpId op_id) {
  ClientSession* const session = Find(id);
  if (session == nullptr) return {};
  auto given = session->given_sockets.extract(op_id);
  return given.empty() ? UniqueFd() : std::move(given.mapped());
}

void BrokerShell::DropGiven(ClientSession& session, core::OpId op_id) {
  if (session.given_sockets.empty()) return;
  std::vector<UniqueFd> sockets;
  sockets.push_back(TakeGiven(session.id(), op_id));
  if (sockets.front()) CloseGiven(session.peer().uid, std::move(sockets));
}

}  // namespace nd::service
