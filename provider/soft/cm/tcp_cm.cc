// SPDX-License-Identifier: Apache-2.0
// Drives the handshakes over real sockets. Bytes are only peeked at (MSG_PEEK) until a state machine has
// consumed them, because the bytes behind the handshake must stay in the socket for the client.
#include "provider/soft/cm/tcp_cm.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/os/readiness.h"
#include "provider/soft/cm/tcp_socket.h"
#include "provider/soft/wire/check.h"

namespace nd::provider::soft {
namespace {

using Event = HandshakeStep::Event;
using CloseHow = HandshakeStep::Close;

// Linux siw loses a first frame that arrives before it has hooked the socket; only foreign peers need this.
constexpr Duration kForeignSettleTime = std::chrono::milliseconds(10);

std::string SourceOf(const Address& peer) {
  return std::string(peer.ip().substr(0, peer.family() == Address::Family::kIpv4 ? 3 : 8));
}

Ending EndingOf(int error) {
  return error == ETIMEDOUT ? Ending::kTimeout : Ending::kReset;
}

}  // namespace

TcpCm::TcpCm(const Options& options, EventLoop& loop, CmSink& sink, const AdapterSet& adapters,
             InboundIds& ids, os::KeptSockets& kept)
    : options_(options),
      loop_(loop),
      sink_(sink),
      adapters_(adapters),
      ids_(ids),
      listeners_(
          loop, adapters, kept,
          [this](UniqueFd fd, const std::string& adapter, PortMode mode) {
            OnAccepted(std::move(fd), adapter, mode);
          },
          [this](int error) { sink_.OnAcceptError(error); }) {}

TcpCm::~TcpCm() {
  while (!connections_.empty()) Close(*connections_.begin()->second, CloseHow::kGraceful);
}

std::uint32_t TcpCm::handshakes() const {
  return static_cast<std::uint32_t>(std::ranges::count_if(
      connections_, [](const auto& entry) { return entry.second->stage != Stage::kEstablished; }));
}

TcpCm::Connection* TcpCm::Find(CmId id) {
  const auto it = connections_.find(id);
  return it == connections_.end() ? nullptr : it->second.get();
}

Result<UniqueFd> TcpCm::MakeConnectSocket(const ConnectParams& params, PortMode mode) {
  if (mode == PortMode::kTcp) return listeners_.BindFrom(params.endpoint, params.local);
  Result<UniqueFd> fd = MakeTcpSocket(params.local.family());
  if (!fd.ok()) return fd;
  sockaddr_storage storage{};
  const std::size_t length = params.local.WithPort(0).ToSockaddr(&storage);
  // The kernel selects the port at connect(), where only the 4-tuple must be free.
  const int on = 1;
  setsockopt(fd->get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
  if (bind(fd->get(), reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) != 0) {
    return errno == EADDRNOTAVAIL ? Status(StatusCode::kNetworkUnreachable, "the local address is gone",
                                           Detail::kTransport, errno)
                                  : ConnectFailure(errno, mode);
  }
  return fd;
}

void TcpCm::Connect(const ConnectParams& params, const Adapter& adapter) {
  const PortMode mode = adapter.ModeFor(params.remote);
  Result<UniqueFd> fd = MakeConnectSocket(params, mode);
  if (!fd.ok()) {
    const bool gone = fd.code() == StatusCode::kInvalidAddress;
    sink_.OnFailed(params.id, gone ? Status(StatusCode::kNetworkUnreachable, fd.status().message(),
                                            Detail::kTransport, fd.status().native())
                                   : fd.status());
    return;
  }
  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = params.id;
  connection.fd = std::move(fd).value();
  connection.mode = mode;
  connection.stage = Stage::kConnecting;
  connection.adapter = params.adapter;
  connection.local = params.local;
  connection.remote = params.remote;
  connection.active.emplace(adapter.Handshake(mode), params.local.port(), params.remote.port(), params.offer,
                            params.private_data);
  SetHandshakeOptions(connection.fd.get(), options_.keepalive);
  ResetOnClose(connection.fd.get());  // The end of the broker resets the connection.
  connections_[params.id] = std::move(owned);

  sockaddr_storage storage{};
  const std::uint16_t port = mode == PortMode::kTcp ? params.remote.port() : adapter.options.tcp_port;
  const std::size_t length = params.remote.WithPort(port).ToSockaddr(&storage);
  const int result = connect(connection.fd.get(), reinterpret_cast<const sockaddr*>(&storage),
                             static_cast<socklen_t>(length));
  const int error = result == 0 ? 0 : errno;
  if (error != 0 && error != EINPROGRESS) {
    Close(connection, CloseHow::kReset);
    sink_.OnFailed(params.id, ConnectFailure(error, mode));
    return;
  }
  connection.in_loop = loop_.Add(connection.fd.get(), os::kWritable,
                                 [this, &connection](std::uint32_t events) { OnReady(connection, events); });
  if (!connection.in_loop) {
    Close(connection, CloseHow::kReset);
    sink_.OnFailed(params.id, {StatusCode::kInsufficientResources, "the connection cannot be watched"});
    return;
  }
  SetTimer(connection, options_.connect_timeout);
}

void TcpCm::OnAccepted(UniqueFd fd, const std::string& adapter_name, PortMode mode) {
  const Adapter* adapter = adapters_.Find(adapter_name);
  const Address peer = PeerAddressOf(fd.get());
  ResetOnClose(fd.get());
  if (adapter == nullptr || !peer.well_formed()) return;
  // The TCP ports of an adapter in separate mode serve the listed networks only.
  if (mode == PortMode::kTcp && adapter->ModeFor(peer) != PortMode::kTcp) return;
  if (half_open_ >= options_.max_half_open) EvictOneHalfOpen();

  auto owned = std::make_unique<Connection>();
  Connection& connection = *owned;
  connection.id = ids_.Next();
  connection.fd = std::move(fd);
  connection.mode = mode;
  connection.adapter = adapter_name;
  connection.local = LocalAddressOf(connection.fd.get());
  connection.remote = peer;
  connection.passive.emplace(adapter->Handshake(mode));
  connection.source = SourceOf(peer);
  SetHandshakeOptions(connection.fd.get(), options_.keepalive);
  const CmId id = connection.id;
  connections_[id] = std::move(owned);
  connection.half_open = true;
  ++half_open_;
  ++half_open_by_source_[connection.source];
  connection.in_loop = loop_.Add(connection.fd.get(), os::kReadable | os::kPeerFinished,
                                 [this, &connection](std::uint32_t events) { OnReady(connection, events); });
  if (!connection.in_loop) return Close(connection, CloseHow::kReset);
  ArmDeadline(connection);
}

// Evicts the oldest half-open connection of the network that has most of them.
void TcpCm::EvictOneHalfOpen() {
  const auto heaviest =
      std::ranges::max_element(half_open_by_source_, {}, [](const auto& e) { return e.second; });
  if (heaviest == half_open_by_source_.end()) return;
  const auto victim = std::ranges::find_if(connections_, [&](const auto& entry) {
    return entry.second->half_open && entry.second->source == heaviest->first;
  });
  wire::Check(victim != connections_.end(), "half-open connections are counted by source");
  Close(*victim->second, CloseHow::kReset);
}

void TcpCm::OnReady(Connection& connection, std::uint32_t) {
  // Which events came does not matter: the socket itself is asked.
  if (connection.stage == Stage::kConnecting) return OnConnectReady(connection);
  Examine(connection);
}

void TcpCm::OnConnectReady(Connection& connection) {
  int error = 0;
  socklen_t length = sizeof error;
  getsockopt(connection.fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error == 0) {
    if (PeerAddressOf(connection.fd.get()).well_formed()) OnTcpConnected(connection);
    return;
  }
  const CmId id = connection.id;
  const PortMode mode = connection.mode;
  Close(connection, CloseHow::kReset);
  sink_.OnFailed(id, ConnectFailure(error, mode));
}

void TcpCm::OnTcpConnected(Connection& connection) {
  ClearTimer(connection);
  connection.stage = Stage::kHandshake;
  loop_.Modify(connection.fd.get(), os::kReadable | os::kPeerFinished);
  sink_.OnReached(connection.id);
  Apply(connection, connection.active->Start());
}

void TcpCm::Examine(Connection& connection) {
  std::array<std::byte, kHandshakePeek> buffer;
  const ssize_t got = recv(connection.fd.get(), buffer.data(), buffer.size(), MSG_PEEK | MSG_DONTWAIT);
  if (got == 0) return OnClosed(connection, Ending::kFin);
  if (got < 0) {
    if (errno != EAGAIN && errno != EINTR) OnClosed(connection, EndingOf(errno));
    return;
  }
  const auto size = static_cast<std::size_t>(got);
  const wire::ByteSpan unread(buffer.data(), size);
  HandshakeStep step =
      connection.active ? connection.active->OnInput(unread) : connection.passive->OnInput(unread);
  const bool undecided = step.event == Event::kNone && step.consumed == 0;
  if (!undecided) return Apply(connection, std::move(step));
  if (PeerClosed(connection.fd.get())) return OnClosed(connection, Ending::kFin);
  // The loop is level-triggered: without the low-water mark a partial frame would wake it for ever.
  SetLowWater(connection.fd.get(), static_cast<int>(size + 1));
  connection.low_water_raised = true;
}

void TcpCm::OnClosed(Connection& connection, Ending ending) {
  Apply(connection,
        connection.active ? connection.active->OnClosed(ending) : connection.passive->OnClosed(ending));
}

bool TcpCm::Consume(Connection& connection, std::size_t count) {
  std::array<std::byte, kHandshakePeek> scrap;
  while (count != 0) {
    const ssize_t got = recv(connection.fd.get(), scrap.data(), std::min(count, scrap.size()), MSG_DONTWAIT);
    if (got <= 0) {
      if (got < 0 && errno == EINTR) continue;
      return false;
    }
    count -= static_cast<std::size_t>(got);
  }
  if (std::exchange(connection.low_water_raised, false)) SetLowWater(connection.fd.get(), 1);
  return true;
}

void TcpCm::Apply(Connection& connection, HandshakeStep step) {
  const bool ends = step.event == Event::kRejected || step.event == Event::kFailed ||
                    step.event == Event::kLost || step.event == Event::kDropped;
  // Frames of the handshake are smaller than any send buffer, so a short write means a broken connection.
  int error = 0;
  if (step.consumed != 0 && !Consume(connection, step.consumed)) error = ECONNRESET;
  if (error == 0 && !step.send.empty()) {
    const ssize_t sent =
        send(connection.fd.get(), step.send.data(), step.send.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent != static_cast<ssize_t>(step.send.size())) error = sent < 0 ? errno : ENOBUFS;
  }
  if (error != 0 && !ends && step.close == CloseHow::kNo) return OnSendFailed(connection, step, error);

  if (step.event == Event::kRequest) return ReportRequest(connection, step);
  if (step.event == Event::kEstablished) {
    ClearTimer(connection);
    loop_.Remove(connection.fd.get());
    connection.in_loop = false;
    connection.stage = Stage::kEstablished;
    EndHalfOpen(connection);
    sink_.OnEstablished(connection.id);
    return;
  }
  if (step.event == Event::kReply) connection.replied_at = loop_.clock().Now();
  const CmId id = connection.id;
  if (ends || step.close != CloseHow::kNo) {
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
  EndHalfOpen(connection);
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
  Apply(*connection, connection->passive->Accept(params.limits, params.private_data));
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
  if (connection->mode == PortMode::kTcp && loop_.clock().Now() < earliest) {
    ClearTimer(*connection);
    connection->timer = loop_.At(earliest, [this, id] { SendConfirmation(id); });
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
      connection->active || (connection->passive->answered() && NothingUnsent(connection->fd.get()));
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
  HandOffRecord& record = hand_off.record;
  record.transport = Transport::kIwarp;
  record.fd_count = 1;
  record.flags = (connection->active ? kHandOffActive : 0u) | (agreement.crc ? kHandOffCrc : 0u) |
                 (agreement.confirmation_reads ? kHandOffConfirm : 0u);
  record.read_inbound = agreement.limits.inbound;
  record.read_outbound = agreement.limits.outbound;
  record.read_msn_out = agreement.read_msn_out;
  record.read_msn_in = agreement.read_msn_in;
  SetHandOverOptions(connection->fd.get());
  hand_off.wire_local = LocalAddressOf(connection->fd.get());
  hand_off.wire_peer = PeerAddressOf(connection->fd.get());
  hand_off.fds.push_back(std::move(connection->fd));
  Close(*connection, CloseHow::kNo);
  return hand_off;
}

void TcpCm::ArmDeadline(Connection& connection) {
  const Deadline wanted = connection.active ? connection.active->deadline() : connection.passive->deadline();
  if (wanted == connection.armed) return;
  ClearTimer(connection);
  connection.armed = wanted;
  // When many connections are half open, each has less time.
  const bool crowded = half_open_ > options_.max_half_open / 2;
  if (wanted == Deadline::kRequest) {
    SetTimer(connection, crowded ? options_.request_timeout / 5 : options_.request_timeout);
  }
  if (wanted == Deadline::kAnswer) SetTimer(connection, options_.connect_timeout);
}

void TcpCm::SetTimer(Connection& connection, Duration after) {
  connection.timer = loop_.At(loop_.clock().Now() + after, [this, &connection] {
    connection.timer.reset();
    OnClosed(connection, Ending::kTimeout);
  });
}

void TcpCm::ClearTimer(Connection& connection) {
  if (connection.timer) loop_.Cancel(*connection.timer);
  connection.timer.reset();
  connection.armed = Deadline::kNone;
}

void TcpCm::EndHalfOpen(Connection& connection) {
  if (!std::exchange(connection.half_open, false)) return;
  --half_open_;
  const auto count = half_open_by_source_.find(connection.source);
  if (--count->second == 0) half_open_by_source_.erase(count);
}

void TcpCm::Close(Connection& connection, CloseHow how) {
  ClearTimer(connection);
  EndHalfOpen(connection);
  if (connection.in_loop) loop_.Remove(connection.fd.get());
  if (connection.fd) {
    const linger graceful{0, 0};
    if (how == CloseHow::kReset) {
      ResetOnClose(connection.fd.get());
    } else {
      setsockopt(connection.fd.get(), SOL_SOCKET, SO_LINGER, &graceful, sizeof graceful);
    }
  }
  connections_.erase(connection.id);
}

}  // namespace nd::provider::soft
