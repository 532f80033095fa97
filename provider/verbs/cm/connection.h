// SPDX-License-Identifier: Apache-2.0
// One connection on rdma_cm, from Connect or the arrival of the request to its end.
//
//   active   Resolving -> Routing -> Connecting -> Replied -> Preparing -> Established
//   passive  Incoming -> Preparing -> Accepting -> Established
//   both     Established -> Closing (our goodbye) | PeerGone
//
// On iWARP the kernel changes the state of the queue pair, so there is no Preparing. On the active side the
// reply establishes the connection, so Confirm sends nothing.
#pragma once

#include <memory>
#include <string>

#include "provider/cm.h"
#include "provider/verbs/cm/blocking_pool.h"
#include "provider/verbs/cm/device_table.h"
#include "provider/verbs/cm/wire_id.h"
#include "provider/verbs/nldev.h"

namespace nd::provider::verbs {

// The services that every connection uses. The connection manager implements it and outlives the connections.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  virtual EventLoop& loop() = 0;
  virtual CmSink& sink() = 0;
  virtual BlockingPool& pool() = 0;
  virtual Nldev& nldev() = 0;
  virtual const DeviceTable& devices() const = 0;
  // Drops the connection with this id. The caller may be one of its member functions.
  virtual void Forget(CmId id) = 0;
  // Destroys the id on the blocking pool. `bound` is the shared address that it held; a malformed address
  // means none.
  virtual void DestroyLater(std::shared_ptr<WireId> wire, const Address& bound) = 0;
};

// Thread rule: the loop's thread.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(ConnectionHost& host, CmId id, std::string adapter);
  ~Connection();

  void StartActive(const ConnectParams& params);
  // Reports the request to the sink. Returns false, and reports nothing, when the id cannot be watched.
  bool StartInbound(std::shared_ptr<WireId> wire, const CmEvent& request);

  void Accept(const AcceptParams& params);
  void Reject(Detail detail, const Bytes& private_data);
  void Confirm();
  void Prepared(const Status& status);
  void Disconnect();
  void Abort();
  Result<HandOff> TakeHandOff();

  bool handshaking() const;
  const std::string& adapter() const { return adapter_; }

 private:
  enum class State {
    kResolving,
    kRouting,
    kConnecting,
    kReplied,
    kPreparing,
    kIncoming,
    kAccepting,
    kEstablished,
    kClosing,
    kPeerGone
  };

  void Begin();
  void SendRequest();
  void OnRequestSent(int error);
  bool Watch();
  void ReleaseWire();
  void OnReadable();
  void OnEvent(const CmEvent& event);
  void OnReplied(const CmEvent& event);
  void OnRemoved();
  void Prepare();
  // The connection is established on the wire: reports it to the sink if there is a descriptor for the
  // application. Returns false when it failed.
  bool Establish();
  // Before establishment: reports to the sink the failure that fits the state, and ends.
  void Fail(const Status& status, const Bytes& private_data = {});
  void EndSilently();
  Status CheckQueuePair() const;
  Bytes ReceivedData(const CmEvent& event) const;

  ConnectionHost& host_;
  const CmId id_;
  const std::string adapter_;
  bool active_ = false;
  bool iwarp_ = false;
  bool own_values_ = false;
  bool ended_ = false;
  State state_ = State::kResolving;
  ConnectParams params_;  // Active.
  unsigned identities_ = 0, routes_ = 0;
  ReadLimits limits_;  // Of this side, for the queue pair.
  Bytes accept_data_;
  std::uint32_t device_qp_ = 0, owner_pid_ = 0;
  std::shared_ptr<WireId> wire_;
  UniqueFd channel_;  // For the application, from Establish() on.
};

}  // namespace nd::provider::verbs
