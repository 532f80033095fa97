// SPDX-License-Identifier: Apache-2.0
// Drives the handshakes. Bytes are only peeked at until a state machine has consumed them, because the bytes
// behind the handshake must stay in the socket for the client.
#include "provider/soft/cm/tcp_cm.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/os/readiness.h"
#include "provider/soft/cm/tcp_socket.h"
#include "provider/soft/transports.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;
using CloseHow = HandshakeStep::Close;

// Linux siw loses a first frame that arrives before it has hooked the socket; only foreign peers need this.
constexpr Duration kForeignSettleTime = std::chrono::milliseconds(10);

Ending EndingOf(int error) {
  return error == ETIMEDOUT ? Ending::kTimeout : Ending::kReset;
}

}  // namespace

TcpCm::TcpCm(const Options& options, TcpHost& host, CmSink& sink, const AdapterSet& adapters, InboundIds& ids)
    : options_(options),
      host_(host),
      sink_(sink),
      adapters_(adapters),
      ids_(ids),
      rejected_(host),
      listeners_(
          host, adapters,
          [this](std::unique_ptr<TcpSocket> socket, const std::string& adapter, PortMode mode) {
            OnAccepted(std::move(socket), adapter, mode);
          },
          [this](int error) { sink_.OnAcceptError(error); }) {}

TcpCm::~TcpCm() {
  while (!connections_.empty()) Close(*connections_.begin()->second, CloseHow::kGraceful);
}

std::uint32_t TcpCm::handshakes() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      connections_, [](const auto& entry) { return entry.second->stage != Stage::kEstablished; }));
}

std::vector<CmId> TcpCm::attempts() const {
  std::vector<CmId> all;
  for (const auto& [id, connection] : connections_) {
    if (!half_open_.Has(id)) all.push_back(id);
  }
  return all;
}

TcpCm::Connection* TcpCm::Find(CmId id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

Result<std::unique_ptr<TcpSocket>> TcpCm::SocketFor(const ConnectParams& params, PortMode mode) {
  return mode == PortMode::kTcp ? listeners_.SocketFrom(params.endpoint, params.local)
                                : host_.SocketFrom(params.local);
}

void TcpCm::Connect(const ConnectParams& params, const Adapter& adapter) {
  const PortMode mode = adapter.ModeFor(params.remote);
  Result<std::unique_ptr<TcpSocket>> socket = SocketFor(params, mode);
  if (socket.ok()) return Start(params, adapter, mode, std::move(socket).value());
  const bool gone = socket.code() == StatusCode::kInvalidAddress;
  sink_.OnFailed(params.id, gone ? Status(StatusCode::kNetworkUnreachable, socket.status().message(),
                                          Detail::kTransport, socket.status().native())
                                 : socket.status());
}

void TcpCm::Start(const ConnectParams& params, const Adapter& adapter, PortMode mode,
                  std::unique_ptr<TcpSocket> socket, bool shared) {
  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = params.id;
  connection.socket = std::move(socket);
  connection.mode = mode;
  connection.shared = shared;
  connection.stage = Stage::kConnecting;
  connection.adapter = params.adapter;
  connection.local = params.local;
  connection.remote = params.remote;
  HandshakeConfig config = adapter.Handshake(mode);
  config.extensions = params.extensions;
  connection.active.emplace(config, params.local.port(), params.remote.port(), params.offer,
                            params.private_data);
  connection.socket->SetHandshakeOptions(options_.keepalive);
  connection.socket->ResetOnClose(true);  // The end of the broker resets the connection.
  connections_[params.id] = std::move(owned);

  const std::uint16_t port = mode == PortMode::kTcp ? params.remote.port() : adapter.options.tcp_port;
  const int error = connection.socket->Connect(params.remote.WithPort(port));
  if (error != 0 && error != EINPROGRESS) {
    Close(connection, CloseHow::kReset);
    sink_.OnFailed(params.id, ConnectFailure(error, mode));
    return;
  }
  connection.socket->SetAccount(Account{params.owner_uid});
  if (!connection.socket->Watch(os::kWritable, [this, &connection](std::uint32_t) { OnReady(connection); })) {
    Close(connection, CloseHow::kReset);
    sink_.OnFailed(params.id, {StatusCode::kInsufficientResources, "the connection cannot be watched"});
    return;
  }
  SetTimer(connection, options_.connect_timeout);
}

void TcpCm::OnAccepted(std::unique_ptr<TcpSocket> socket, const std::string& adapter_name, PortMode mode) {
  const Adapter* adapter = adapters_.Find(adapter_name);
  const Address peer = socket->Peer();
  socket->ResetOnClose(true);
  if (adapter == nullptr || !peer.well_formed()) return;
  // The TCP ports of an adapter in separate mode serve the listed networks only.
  if (mode == PortMode::kTcp && adapter->ModeFor(peer) != PortMode::kTcp) return;
  if (half_open_.size() >= options_.max_half_open) EvictOneHalfOpen();

  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = ids_.Next();
  connection.socket = std::move(socket);
  connection.mode = mode;
  connection.adapter = adapter_name;
  connection.local = connection.socket->Local();
  connection.remote = peer;
  connection.passive.emplace(adapter->Handshake(mode));
  connection.socket->SetHandshakeOptions(options_.keepalive);
  const CmId id = connection.id;
  connections_[id] = std::move(owned);
  half_open_.Add(id, peer);
  if (!connection.socket->Watch(os::kReadable | os::kPeerFinished,
                                [this, &connection](std::uint32_t) { OnReady(connection); })) {
    return Close(connection, CloseHow::kReset);
  }
  ArmDeadline(connection);
}

void TcpCm::EvictOneHalfOpen() {
  const std::optional<CmId> victim = half_open_.Victim();
  if (victim) Close(*connections_.at(*victim), CloseHow::kReset);
}

void TcpCm::OnReady(Connection& connection) {
  if (connection.stage == Stage::kConnecting) return OnConnectReady(connection, /*told=*/true);
  Examine(connection);
}

void TcpCm::OnConnectReady(Connection& connection, bool told) {
  int error = connection.socket->TakeError();
  if (error == 0) {
    if (connection.socket->Peer().well_formed()) return OnTcpConnected(connection);
    if (!connection.shared || !told) return;
    error = ENOTCONN;  // Another process disconnected the shared socket, which would stay writable.
  }
  const CmId id = connection.id;
  const PortMode mode = connection.mode;
  Close(connection, CloseHow::kReset);
  sink_.OnFailed(id, ConnectFailure(error, mode));
}

void TcpCm::OnTcpConnected(Connection& connection) {
  ClearTimer(connection);
  connection.stage = Stage::kHandshake;
  connection.socket->SetEvents(os::kReadable | os::kPeerFinished);
  sink_.OnReached(connection.id);
  Apply(connection, connection.active->Start());
}

void TcpCm::Examine(Connection& connection) {
  std::array<std::byte, kHandshakePeek> buffer;
  for (bool ended = false;; ended = true) {
    const TcpSocket::Peeked peeked = connection.socket->Peek(buffer);
    if (peeked.error == EAGAIN) return;
    if (peeked.error != 0) return OnClosed(connection, EndingOf(peeked.error));
    if (peeked.size == 0) return OnClosed(connection, Ending::kFin);
    const wire::ByteSpan unread(buffer.data(), peeked.size);
    HandshakeStep step =
        connection.active ? connection.active->OnInput(unread) : connection.passive->OnInput(unread);
    const bool undecided = step.event == Event::kNone && step.consumed == 0;
    if (!undecided) return Apply(connection, std::move(step));
    if (ended) return OnClosed(connection, Ending::kFin);
    // The rest of a frame may have arrived with the end, after the peek.
    if (connection.socket->PeerClosed()) continue;
    // The loop is level-triggered: without the low-water mark a partial frame would wake it for ever.
    connection.socket->SetLowWater(peeked.size + 1);
    connection.low_water_raised = true;
    return;
  }
}

void TcpCm::OnClosed(Connection& connection, Ending ending) {
  Apply(connection,
        connection.active ? connection.active->OnClosed(ending) : connection.passive->OnClosed(ending));
}

int TcpCm::Consume(Connection& connection, std::size_t count) {
  if (const int error = connection.socket->Consume(count); error != 0) return error;
  if (std::exchange(connection.low_water_raised, false)) connection.socket->SetLowWater(1);
  return 0;
}

void TcpCm::Apply(Connection& connection, HandshakeStep step) {
  const bool ends = step.event == Event::kRejected || step.event == Event::kFailed ||
                    step.event == Event::kLost || step.event == Event::kDropped;
  int error = step.consumed != 0 ? Consume(connection, step.consumed) : 0;
  // Frames of the handshake are smaller than any send buffer, so a short write means a broken connection.
  if (error == 0 && !step.send.empty()) error = connection.socket->Send(step.send);
  if (error != 0 && !ends && step.close == CloseHow::kNo) return OnSendFailed(connection, step, error);

  if (step.event == Event::kRequest) return ReportRequest(connection, step);
  if (step.event == Event::kEstablished) {
    ClearTimer(connection);
    connection.socket->Unwatch();
    connection.stage = Stage::kEstablished;
    half_open_.Remove(connection.id);
    sink_.OnEstablished(connection.id);
    return;
  }
  if (step.event == Event::kReply) connection.replied_at = host_.Now();
  const CmId id = connection.id;
  const bool refused = connection.passive && step.close == CloseHow::kGraceful && !step.send.empty();
  if (refused && error == 0 && connection.mode == PortMode::kTcp) {
    connection.socket->Unwatch();
    rejected_.Keep(std::move(connection.socket));
    Close(connection, CloseHow::kNo);
  } else if (ends || step.close != CloseHow::kNo) {
    Close(connection, step.close);
  } else {
    ArmDeadline(connection);
  }
  Report(id, step);
}

void TcpCm::OnSendFailed(Connection& connection, const HandshakeStep& step, int error) {
  HandshakeStep lost;
  if (connection.active && step.event == Event::kNone) lost = connection.active->OnClosed(EndingOf(error));
  if (lost.event == Event::kNone) {
    lost.event = Event::kLost;
    lost.status =
        EndingOf(error) == Ending::kTimeout
            ? Status(StatusCode::kIoTimeout, "the other side does not answer any more", Detail::kWireTimeout,
                     error)
            : Status(StatusCode::kConnectionAborted, "the other side is gone", Detail::kPeerWithdrew, error);
  }
  const CmId id = connection.id;
  Close(connection, CloseHow::kReset);
  Report(id, lost);
}

void TcpCm::Report(CmId id, HandshakeStep& step) {
  switch (step.event) {
    case Event::kReply:
      return sink_.OnReply(id, step.limits_known, step.limits, step.private_data);
    case Event::kRejected:
      return sink_.OnRejected(id, step.status, step.private_data);
    case Event::kFailed:
      return sink_.OnFailed(id, step.status);
    case Event::kLost:
      return sink_.OnLost(id, step.status, step.private_data);
    case Event::kNone:
    case Event::kDropped:
    case Event::kRequest:
    case Event::kEstablished:
      return;
  }
}

void TcpCm::ReportRequest(Connection& connection, HandshakeStep& step) {
  half_open_.Remove(connection.id);
  ArmDeadline(connection);
  if (connection.mode == PortMode::kSeparate) {
    connection.local.set_port(step.destination_port);
    connection.remote.set_port(step.source_port);
  }
  InboundRequest request;
  request.id = connection.id;
  request.adapter = connection.adapter;
  request.local = connection.local;
  request.remote = connection.remote;
  request.limits_known = step.limits_known;
  request.peer_offer = step.limits;
  request.private_data = std::move(step.private_data);
  sink_.OnRequest(request);
}

void TcpCm::Accept(CmId id, const AcceptParams& params) {
  Connection* connection = Find(id);
  if (connection == nullptr || !connection->passive) return;
  Apply(*connection, connection->passive->Accept(params.limits, params.private_data, params.extensions));
}

void TcpCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  Apply(*connection, connection->passive ? connection->passive->Reject(detail, private_data)
                                         : connection->active->Reject(private_data));
}

void TcpCm::Confirm(CmId id) {
  Connection* connection = Find(id);
  if (connection == nullptr || !connection->active) return;
  const Time earliest = connection->replied_at + kForeignSettleTime;
  if (connection->mode == PortMode::kTcp && host_.Now() < earliest) {
    ClearTimer(*connection);
    connection->timer = host_.At(earliest, [this, id] { SendConfirmation(id); });
    return;
  }
  SendConfirmation(id);
}

void TcpCm::SendConfirmation(CmId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  connection->timer.reset();
  // A withdrawal that has arrived already takes precedence over the confirmation.
  Examine(*connection);
  connection = Find(id);
  if (connection != nullptr) Apply(*connection, connection->active->Confirm());
}

void TcpCm::Abort(CmId id) {
  Connection* connection = Find(id);
  if (connection == nullptr) return;
  // A reset leaves no TIME_WAIT on the port of the connecting side. On the accepting side a reset must not
  // overtake the reply. Once the reply is acknowledged, a close without reset would look like the disconnect
  // of an application that never had the connection.
  const bool reset =
      connection->active || (connection->passive->answered() && connection->socket->NothingUnsent());
  Close(*connection, reset ? CloseHow::kReset : CloseHow::kGraceful);
}

Result<HandOff> TcpCm::TakeHandOff(CmId id) {
  Connection* connection = Find(id);
  if (connection == nullptr || connection->stage != Stage::kEstablished) {
    return Status{StatusCode::kInvalidParameter, "there is no established connection of that id"};
  }
  const Agreement& agreement =
      connection->active ? connection->active->agreement() : connection->passive->agreement();
  HandOff hand_off;
  hand_off.transport = kIwarpName;
  hand_off.record =
      IwarpRecord({.read_msn_out = agreement.read_msn_out, .read_msn_in = agreement.read_msn_in});
  HandOffRecord& record = hand_off.record;
  record.flags = (connection->active ? kHandOffActive : 0u) | (agreement.crc ? kHandOffCrc : 0u) |
                 (agreement.confirmation_reads ? kHandOffConfirm : 0u) |
                 (agreement.extensions ? kHandOffExtensions : 0u);
  record.read_inbound = agreement.limits.inbound;
  record.read_outbound = agreement.limits.outbound;
  connection->socket->SetHandOverOptions();
  hand_off.wire_local = connection->socket->Local();
  hand_off.wire_peer = connection->socket->Peer();
  hand_off.fds.push_back(connection->socket->Release());
  connection->socket.reset();
  Close(*connection, CloseHow::kNo);
  return hand_off;
}

void TcpCm::ArmDeadline(Connection& connection) {
  const Deadline wanted = connection.active ? connection.active->deadline() : connection.passive->deadline();
  if (wanted == connection.armed) return;
  ClearTimer(connection);
  connection.armed = wanted;
  // When many connections are half open, each has less time.
  const bool crowded = half_open_.size() > options_.max_half_open / 2;
  if (wanted == Deadline::kRequest) {
    SetTimer(connection, crowded ? options_.request_timeout / 5 : options_.request_timeout);
  }
  if (wanted == Deadline::kAnswer) SetTimer(connection, options_.connect_timeout);
}

void TcpCm::SetTimer(Connection& connection, Duration after) {
  connection.timer = host_.At(host_.Now() + after, [this, &connection] { OnDeadline(connection); });
}

void TcpCm::OnDeadline(Connection& connection) {
  connection.timer.reset();
  const CmId id = connection.id;
  const Stage stage = connection.stage;
  const Deadline missed = connection.armed;
  stage == Stage::kConnecting ? OnConnectReady(connection, /*told=*/false) : Examine(connection);
  const bool waits = Find(id) != nullptr && connection.stage == stage && connection.armed == missed;
  if (waits) OnClosed(connection, Ending::kTimeout);
}

void TcpCm::ClearTimer(Connection& connection) {
  if (connection.timer) host_.Cancel(*connection.timer);
  connection.timer.reset();
  connection.armed = Deadline::kNone;
}

void TcpCm::Close(Connection& connection, CloseHow how) {
  ClearTimer(connection);
  half_open_.Remove(connection.id);
  if (connection.socket) connection.socket->ResetOnClose(how == CloseHow::kReset);
  connections_.erase(connection.id);
}

}  // namespace nd::provider::soft
