// SPDX-License-Identifier: Apache-2.0
// The beginning and end of sessions.
#include <algorithm>
#include <array>
#include <utility>

#include "base/locate.h"
#include "base/os/random.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/probes.h"
#include "daemon/service/lane_stream.h"
#include "daemon/service/pod_name.h"
#include "daemon/shell/broker_shell.h"
#include "daemon/shell/id_text.h"
#include "provider/halves_record.h"
#include "provider/sockets_record.h"
#include "session/ahead.h"
#include "session/check.h"
#include "session/codec.h"
#include "session/limits.h"

namespace nd::service {
namespace {

std::string Who(const Peer& peer) {
  return "uid " + std::to_string(peer.uid) + " (pid " + std::to_string(peer.pid) + ")";
}

}  // namespace

ClientSession* BrokerShell::Find(core::SessionId id) {
  const auto it = sessions_.find(id);
  return it == sessions_.end() ? nullptr : it->second.get();
}

void BrokerShell::AdmitLane(UniqueFd socket, const Peer& peer) {
  const core::SessionId id{++last_session_};
  ClientLane::Callbacks callbacks{
      [this, id] { LaneRoom(id); },
      [this, id](const Status& why) { EndSession(id, Status(why.code(), "fd lane: " + why.message())); },
      [this, id](std::span<const std::byte> bytes) { LaneMessage(id, bytes); },
      [this, id] { return MayBeLate(id); }};
  provider::TokenRecord record;
  record.features =
      provider::kLaneMessages | provider::kLaneManyMessages | provider::kReattachMakesQueuePairs;
  if (GivesSockets(peer)) {
    record.features |= provider::kGiveSockets;
    callbacks.sockets = [this, id](std::uint64_t op_id, std::vector<UniqueFd> sockets) {
      LaneSockets(id, op_id, std::move(sockets));
    };
    callbacks.discard = [this, uid = peer.uid](std::vector<UniqueFd> fds) {
      CloseGiven(uid, std::move(fds));
    };
  }
  if (manager_->transport() != provider::TransportKind::kNone) {
    record.features |= provider::kHalvesMessages;
    callbacks.halves = [this, id](std::span<const std::byte> datagram) { LaneHalves(id, datagram); };
  }
  auto lane = std::make_unique<ClientLane>(loop_, std::move(socket), peer, std::move(callbacks));
  std::array<std::byte, 16> token;
  os::FillWithRandom(token);
  std::copy(token.begin(), token.end(), reinterpret_cast<std::byte*>(record.token));
  if (!lane->Open() || !lane->SendPlain(std::as_bytes(std::span(&record, 1))).ok()) {
    return lane_gate_.Gone(peer.uid, false);
  }
  auto session = std::make_unique<ClientSession>(id, std::move(lane), token, in_flight_);
  session->hello_timer = loop_.At(loop_.clock().Now() + options_.config.limits.hello_timeout, [this, id] {
    Find(id)->hello_timer.reset();
    doors_[kLaneSocketName].Refuse(ops::Refusal::kNoHello);
    EndSession(id, Status(StatusCode::kIoTimeout, "it sent no Hello in time"));
  });
  by_pid_.emplace(peer.pid, id);
  sessions_.emplace(id, std::move(session));
}

core::SessionId BrokerShell::Attach(const std::shared_ptr<SessionSink>& stream, HelloFacts hello) {
  ClientSession* session = nullptr;
  // Only lanes of the process that owns the stream, according to the kernel, can match.
  const auto [first, last] = by_pid_.equal_range(hello.identity.pid);
  for (auto it = first; it != last; ++it) {
    ClientSession& candidate = *sessions_.at(it->second);
    if (candidate.peer().uid == hello.identity.uid && candidate.TokenIs(hello.token)) session = &candidate;
  }
  if (session == nullptr) {
    RefuseToken(kBrokerSocketName, hello.identity);
    Refuse(stream, hello.op_id,
           Status(StatusCode::kAccessDenied,
                  "the token is not that of an open and unused fd lane of this process"));
    return {};
  }
  options_.on_proven(hello.socket_cookie);
  return Begin(*session, stream, std::move(hello));
}

void BrokerShell::LaneMessage(core::SessionId id, std::span<const std::byte> bytes) {
  ClientSession* session = Find(id);
  if (session == nullptr) return;
  Result<session::ClientMessage> message = session::DecodeClientMessage(bytes);
  if (!message.ok()) {
    return EndSession(id, Status(message.code(), "a message on the fd lane: " + message.status().message()));
  }
  if (!session->on_lane) {
    if (session->stream == nullptr) return LaneHello(*session, std::move(*message));
    return EndSession(id, Status(StatusCode::kInvalidDeviceRequest,
                                 "a message on the fd lane of a session that is held by gRPC"));
  }
  const core::OpId op_id = message->op_id;
  if (Status bad = session::CheckOperation(*message); !bad.ok()) {
    DropGiven(*session, op_id);
    return EndIf(id, session->Send(session::Completion{op_id, std::move(bad), {}}));
  }
  Operation(id, op_id, std::get<session::Operation>(std::move(message->content)));
}

void BrokerShell::LaneHalves(core::SessionId id, std::span<const std::byte> datagram) {
  const ClientSession* const session = Find(id);
  if (session == nullptr) return;
  const Result<provider::HalvesMessage> message = provider::DecodeHalvesRecord(datagram);
  Status status = message.status();
  if (status.ok() && (!session->on_lane || session->stream == nullptr)) {
    status = Status(StatusCode::kRemoteError, "a message of a provider before Hello, or beside gRPC");
  } else if (status.ok() && message->transport != manager_->transport()) {
    status = Status(StatusCode::kRemoteError, "a message of a provider that this broker does not have");
  } else if (status.ok()) {
    status = manager_->OnClientMessage(ClientOf(id), message->bytes);
  }
  EndIf(id, status);
}

void BrokerShell::SendToClient(provider::ClientId client, std::span<const std::byte> message) {
  const core::SessionId id{static_cast<std::uint64_t>(client)};
  ClientSession* const session = Find(id);
  if (session == nullptr) return;
  std::vector<std::byte> datagram = provider::EncodeHalvesRecord(manager_->transport(), message);
  if (session->lane().SendDatagram(std::move(datagram), options_.config.limits.session_queue_bytes)) return;
  // The caller is the connection manager in the middle of its own work.
  loop_.Post([this, id] {
    EndSession(id,
               Status(StatusCode::kInsufficientResources, "it does not read the messages of its provider"));
  });
}

// The lane is not read again until the reply to Hello.
void BrokerShell::LaneHello(ClientSession& session, session::ClientMessage message) {
  session.on_lane = true;
  session.lane().SetReading(false);
  Claim(session);
  // The worker outlives this object.
  const Account account{session.peer().uid};
  hello_worker_.PostFor(account, [this, &loop = loop_, account, id = session.id(), peer = session.peer(),
                                  version = options_.version,
                                  pods = options_.directory + "/" + kPodsDirectoryName, op_id = message.op_id,
                                  message = std::move(message)] {
    auto hello = std::make_shared<Result<HelloFacts>>(HelloFrom(message, peer, version));
    if (hello->ok()) NamePod(pods, (*hello)->identity);
    loop.PostFor(account, [this, id, hello, op_id] {
      ClientSession* client = Find(id);
      if (client == nullptr) return;
      auto stream = std::make_shared<LaneStream>(client->lane(), options_.config.limits.session_queue_bytes);
      Status refused = hello->status();
      if (!refused.ok()) {
        doors_[kLaneSocketName].Refuse(ops::Refusal::kBadHello);
      } else if (!client->TokenIs((*hello)->token)) {
        RefuseToken(kLaneSocketName, (*hello)->identity);
        refused = Status(StatusCode::kAccessDenied, "the token is not the one that this fd lane delivered");
      } else if (refused = JoinNetwork(*client); !refused.ok()) {
        doors_[kLaneSocketName].Refuse(ops::Refusal::kBadHello);
      }
      if (!refused.ok()) {
        stream->Send(session::Completion{op_id, refused, {}});
        stream->End(refused);
        return EndSession(id, refused, /*logged=*/true);
      }
      client->lane().SetReading(true);
      Begin(*client, stream, std::move(hello->value()));
    });
  });
}

void BrokerShell::RefuseToken(const char* door, const core::Identity& who) {
  doors_[door].Refuse(ops::Refusal::kBadToken);
  ops::LogWarning("hello refused", "uid " + std::to_string(who.uid) + " (pid " + std::to_string(who.pid) +
                                       ") said Hello with a wrong token");
}

void BrokerShell::Claim(const ClientSession& session) {
  const auto [first, last] = by_pid_.equal_range(session.peer().pid);
  const auto entry = std::find_if(first, last, [&](const auto& e) { return e.second == session.id(); });
  if (entry != last) by_pid_.erase(entry);
}

core::SessionId BrokerShell::Begin(ClientSession& opened, const std::shared_ptr<SessionSink>& stream,
                                   HelloFacts hello) {
  ClientSession* session = &opened;
  Claim(*session);
  const core::SessionId id = session->id();
  loop_.Cancel(*session->hello_timer);
  session->hello_timer.reset();
  session->stream = stream;
  session->takes_together =
      session->on_lane && (hello.identity.features & session::kClientTakesTogether) != 0;
  lane_gate_.Proven(session->peer().uid);
  Place(*session, hello.identity);
  session::Completion answer{hello.op_id, {}, {}};
  answer.reply.version = session::kProtocolVersion;
  answer.reply.boot_epoch = options_.boot_epoch;
  answer.reply.broker_version = hello.broker_version;
  // The core may refuse the session (quota); its refusal is then the completion of Hello.
  const core::OpId op_id = hello.op_id;
  session->hello_op = op_id;
  for (RecordSink* const sink : record_sinks_) sink->OnSession(id, hello.identity);
  Run(core::SessionOpened{id, std::move(hello.identity)});
  session = Find(id);
  if (session == nullptr) return {};
  session->hello_op = 0;
  const Status status = session->Send(std::move(answer));
  EndIf(id, status);
  return status.ok() ? id : core::SessionId{};
}

void BrokerShell::Operation(core::SessionId id, core::OpId op_id, session::Operation&& op) {
  ClientSession* session = Find(id);
  if (session == nullptr) return;
  const bool repeated = session->pending.contains(op_id);
  // An object that is made ahead is answered at once, and the client counts on it.
  if (session->pending.size() >= options_.config.limits.pending_operations && !repeated &&
      !session::IsMadeAhead(op)) {
    DropGiven(*session, op_id);
    return EndIf(id, session->Send(session::Completion{
                         op_id,
                         Status(StatusCode::kInsufficientResources,
                                "this session has " + std::to_string(session->pending.size()) +
                                    " operations pending; wait for some or cancel them",
                                Detail::kQuota),
                         {}}));
  }
  Status lacking = repeated ? Status::Ok() : Provide(*session, op);
  if ((session = Find(id)) == nullptr) return;
  if (lacking.ok() && !repeated) lacking = CheckGiven(*session, op_id);
  if (!lacking.ok()) {
    DropGiven(*session, op_id);
    return EndIf(id, session->Send(session::Completion{op_id, lacking, {}}));
  }
  NDB_PROBE(operation_begin, id, op_id, op.index());
  if (op_id != 0 && !repeated) session->pending.Add(op_id, {op.index(), loop_.clock().Now()});
  core::Event event{std::in_place_type<core::ClientOp>};
  auto& client_op = std::get<core::ClientOp>(event);
  client_op.session = id;
  client_op.op_id = op_id;
  client_op.op = std::move(op);
  Run(std::move(event));
}

void BrokerShell::StreamEnded(core::SessionId id, const Status& why) {
  EndSession(id, why);
}

void BrokerShell::LaneRoom(core::SessionId id) {
  if (ClientSession* session = Find(id)) EndIf(id, session->Flush());
}

void BrokerShell::Refuse(const std::shared_ptr<SessionSink>& stream, core::OpId op_id, const Status& why) {
  stream->Send(session::Completion{op_id, why, {}});
  Retire(stream, why);
}

void BrokerShell::Retire(std::shared_ptr<SessionSink> stream, const Status& why) {
  stream->End(why);
  const std::uint64_t number = ++last_retired_;
  const auto timer = loop_.At(loop_.clock().Now() + std::chrono::seconds(1), [this, number] {
    const std::shared_ptr<SessionSink> late = std::move(retiring_.at(number).second);
    retiring_.erase(number);
    late->Cut();  // Does nothing if the stream has ended in time.
  });
  retiring_.emplace(number, std::pair(timer, std::move(stream)));
}

void BrokerShell::EndSession(core::SessionId id, const Status& why, bool logged) {
  const auto it = sessions_.find(id);
  if (it == sessions_.end()) return;
  std::unique_ptr<ClientSession> session = std::move(it->second);
  sessions_.erase(it);
  const bool opened = session->stream != nullptr;
  if (session->hello_timer) loop_.Cancel(*session->hello_timer);
  Claim(*session);
  lane_gate_.Gone(session->peer().uid, opened);
  // A hang-up or a goodbye is the choice of the client. Every other end is an error.
  const bool ordinary = why.ok() || why == StatusCode::kConnectionDisconnected;
  const std::string line =
      IdText('s', static_cast<std::uint64_t>(id)) + " of " + Who(session->peer()) + ": " + why.ToString();
  if (ordinary) ops::LogDebug("session ended by its client: " + line);
  if (!ordinary && !logged) ops::LogWarning("session ended", line);
  if (opened) {
    if (session->hello_op != 0) {
      Refuse(session->stream, session->hello_op, why);
    } else {
      Retire(session->stream, why);
    }
  }
  session->lane().Close();  // After the last messages were sent.
  LeaveNetwork(*session);
  ended_.Add(std::move(session));
  PostForget();
  if (opened) {
    for (RecordSink* const sink : record_sinks_) sink->OnSessionEnd(id, why);
  }
  if (opened) manager_->OnClientGone(ClientOf(id));
  if (opened) Run(core::SessionClosed{id, ordinary ? Status::Ok() : why});
}

void BrokerShell::ForgetEnded() {
  ended_.Forget([this](const ClientSession& session) { return core_->HasSession(session.id()); });
  // Each step of reclaiming forgets some as well.
  if (!ended_.empty() && !core_->reclaiming()) PostForget();
}

void BrokerShell::PostForget() {
  if (forget_posted_ || stopped_) return;
  forget_posted_ = true;
  loop_.Post([this] {
    forget_posted_ = false;
    ForgetEnded();
  });
}

void BrokerShell::Stop() {
  Run(core::Stopping{});
  stopped_ = true;
  leases_.Stop();
  for (auto& [id, session] : sessions_) {
    if (session->hello_timer) loop_.Cancel(*session->hello_timer);
    session->hello_timer.reset();
    if (session->stream != nullptr) {
      session->stream->End(
          Status(StatusCode::kDeviceNotReady, "the broker is stopping", Detail::kBrokerUnreachable));
    }
    session->lane().Close();
    LeaveNetwork(*session);
    ended_.Add(std::move(session));
  }
  sessions_.clear();
  by_pid_.clear();
}

}  // namespace nd::service
