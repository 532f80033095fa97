// SPDX-License-Identifier: Apache-2.0
// Connections to and from other hosts: sockets, timers and limits around the handshake state machines.
//
// The thread of the TcpHost only. Commands for ids it does not own are ignored. Every connection ends through
// Close().
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/half_open_peers.h"
#include "provider/soft/cm/handshake.h"
#include "provider/soft/cm/inbound_ids.h"
#include "provider/soft/cm/options.h"
#include "provider/soft/cm/rejected_peers.h"
#include "provider/soft/cm/tcp_host.h"
#include "provider/soft/cm/tcp_listeners.h"

namespace nd::provider::soft {

class TcpCm {
 public:
  // All of them outlive this object.
  TcpCm(const Options& options, TcpHost& host, CmSink& sink, const AdapterSet& adapters, InboundIds& ids);
  ~TcpCm();
  TcpCm(const TcpCm&) = delete;
  TcpCm& operator=(const TcpCm&) = delete;

  TcpListeners& listeners() { return listeners_; }
  std::uint32_t handshakes() const;
  // Every connection that is not handed over, half-open ones included.
  std::size_t connections() const { return connections_.size(); }
  // Refused connections that the peer has not closed yet.
  std::size_t rejected() const { return rejected_.size(); }
  // The connections that the sink knows, in the order of their ids.
  std::vector<CmId> attempts() const;

  void Connect(const ConnectParams& params, const Adapter& adapter);
  // For an adapter of another network: from a socket that is bound to the local address.
  void ConnectFrom(const ConnectParams& params, const Adapter& adapter, std::unique_ptr<TcpSocket> socket) {
    Start(params, adapter, PortMode::kSeparate, std::move(socket), /*shared=*/true);
  }
  void Accept(CmId id, const AcceptParams& params);
  void Reject(CmId id, Detail detail, const Bytes& private_data);
  void Confirm(CmId id);
  void Abort(CmId id);
  // INVALID_PARAMETER: no such id, or not established.
  Result<HandOff> TakeHandOff(CmId id);

 private:
  enum class Stage : std::uint8_t { kConnecting, kHandshake, kEstablished };
  struct Connection {
    CmId id{};
    std::unique_ptr<TcpSocket> socket;
    Stage stage = Stage::kHandshake;
    PortMode mode = PortMode::kSeparate;
    std::string adapter;
    Address local, remote;                  // With ND ports once they are known.
    std::optional<ActiveHandshake> active;  // Either `active` or `passive` has a value.
    std::optional<PassiveHandshake> passive;
    bool shared = false;  // As for Start().
    bool low_water_raised = false;
    std::optional<EventLoop::TimerId> timer;
    Deadline armed = Deadline::kNone;
    Time replied_at{};
  };

  Result<std::unique_ptr<TcpSocket>> SocketFor(const ConnectParams& params, PortMode mode);
  // `socket` is bound to the local address; `shared`: its maker may have kept a duplicate.
  void Start(const ConnectParams& params, const Adapter& adapter, PortMode mode,
             std::unique_ptr<TcpSocket> socket, bool shared = false);
  void OnAccepted(std::unique_ptr<TcpSocket> socket, const std::string& adapter, PortMode mode);
  void OnReady(Connection& connection);
  // `told`: the system reports an event of the socket.
  void OnConnectReady(Connection& connection, bool told);
  void OnTcpConnected(Connection& connection);
  void Examine(Connection& connection);
  void OnClosed(Connection& connection, Ending ending);
  void OnSendFailed(Connection& connection, const HandshakeStep& step, int error);
  void SendConfirmation(CmId id);
  // May end the connection; do not use it afterwards.
  void Apply(Connection& connection, HandshakeStep step);
  void Report(CmId id, HandshakeStep& step);
  void ReportRequest(Connection& connection, HandshakeStep& step);
  int Consume(Connection& connection, std::size_t count);
  void ArmDeadline(Connection& connection);
  void SetTimer(Connection& connection, Duration after);
  // Looks at the socket first: the loop runs timers before descriptors, and a busy one comes late to both.
  void OnDeadline(Connection& connection);
  void ClearTimer(Connection& connection);
  void Close(Connection& connection, HandshakeStep::Close how);
  void EvictOneHalfOpen();
  Connection* Find(CmId id);

  const Options options_;
  TcpHost& host_;
  CmSink& sink_;
  const AdapterSet& adapters_;
  InboundIds& ids_;
  std::map<CmId, std::unique_ptr<Connection>>
      connections_;  // Inbound ids grow, so the oldest connection comes first.
  HalfOpenPeers half_open_;
  RejectedPeers rejected_;
  TcpListeners listeners_;
};

}  // namespace nd::provider::soft
