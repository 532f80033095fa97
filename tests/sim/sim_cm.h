// SPDX-License-Identifier: Apache-2.0
// The connection manager of one simulated host: the real handshake machines and codecs, the real manager of
// same-host connections and the real adapter rules, over the simulated network.
//
// Does the work of TcpCm on sockets: shows unread bytes to a machine, drops consumed bytes, sends, and
// closes.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/handshake.h"
#include "provider/soft/cm/inbound_ids.h"
#include "provider/soft/cm/loop_cm.h"
#include "tests/sim/device_cm.h"
#include "tests/sim/memory.h"
#include "tests/sim/net.h"

namespace nd::sim {

struct CmFaults {
  std::uint32_t reserve_refused = 30, reserve_slow = 200, no_descriptors = 5;
};

class SimCm {
 public:
  struct Options {
    int host = 0;
    provider::soft::Options soft;
    std::string device;  // Name of the device adapter; empty: none.
    std::vector<Address> device_addresses;
    bool device_limits_tight = false;
  };
  // An established connection on its way to a client.
  struct Transport {
    provider::HandOffRecord record;
    EndId end = 0;  // 0: a connection of a device, without a stream.
  };

  SimCm(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric, provider::CmSink& sink,
        Memory& memory);
  // The process died: the kernel closes its descriptors.
  ~SimCm();
  SimCm(const SimCm&) = delete;
  SimCm& operator=(const SimCm&) = delete;

  CmFaults faults;

  std::vector<provider::AdapterDescription> adapters() const;
  Result<Address> Resolve(const std::string& adapter, const Address& remote) const;
  // Hidden adapters are removed from the host.
  void Hide(const std::string& adapter, bool hidden);

  void Reserve(provider::EndpointId endpoint, const std::string& adapter, const Address& local);
  void Release(provider::EndpointId endpoint);
  void Listen(provider::EndpointId endpoint, const std::string& adapter, const Address& local);
  void Unlisten(provider::EndpointId endpoint);
  void Connect(const provider::ConnectParams& params);
  void Accept(provider::CmId id, const provider::AcceptParams& params);
  void Reject(provider::CmId id, Detail detail, const provider::Bytes& private_data);
  void Confirm(provider::CmId id);
  void Prepared(provider::CmId id, const Status& status) { device_.Prepared(id, status); }
  void Abort(provider::CmId id);
  void Disconnect(provider::CmId id);
  Result<Transport> Take(provider::CmId id);

  // Returns the live TCP attempts that the core knows.
  std::vector<provider::CmId> Attempts() const;
  // Lists all live objects for the leak check: connections, same-host pairs, ends of devices, reserved ports.
  std::string Describe() const;
  std::size_t stream_ends() const;
  std::size_t reserved() const { return reserved_.size(); }
  std::size_t device_ends() const { return device_.size(); }
  std::size_t local_handshakes() const { return loop_.handshakes(); }

 private:
  enum class Stage : std::uint8_t { kConnecting, kHandshake, kEstablished };
  struct Connection {
    provider::CmId id{};
    EndId end = 0;
    Stage stage = Stage::kHandshake;
    provider::soft::PortMode mode = provider::soft::PortMode::kSeparate;
    std::string adapter;
    Address local, remote;
    std::optional<provider::soft::ActiveHandshake> active;
    std::optional<provider::soft::PassiveHandshake> passive;
    std::optional<Schedule::Id> timer;
    provider::soft::Deadline armed = provider::soft::Deadline::kNone;
    Time replied_at{};
    bool known = false;  // The core knows the connection.
  };
  struct Reservation {
    std::string adapter;
    Address local;
    bool granted = false, listening = false;
  };
  // Between the same-host manager and the core: makes the stream of an established pair.
  class LoopSink;

  // Returns null when the broker is dying.
  Connection* Find(provider::CmId id);
  std::vector<Address> ListenAddresses(const Reservation& reservation) const;
  void OnAccepted(EndId end, const std::string& adapter, provider::soft::PortMode mode, const Address& local,
                  const Address& peer);
  void OnConnected(provider::CmId id, int error);
  void Examine(provider::CmId id);
  void OnClosed(Connection& connection, provider::soft::Ending ending);
  // Applies the step of `machine`, unless the broker dies in it.
  template <typename Machine>
  void Advance(Connection& connection, Machine&& machine);
  void Apply(Connection& connection, provider::soft::HandshakeStep step);
  void Report(provider::CmId id, provider::soft::HandshakeStep& step);
  void SendConfirmation(provider::CmId id);
  void ArmDeadline(Connection& connection);
  void SetTimer(Connection& connection, Duration after);
  void ClearTimer(Connection& connection);
  void Close(Connection& connection, provider::soft::HandshakeStep::Close how);

  const Options options_;
  Schedule& schedule_;
  Dice& dice_;
  Net& net_;
  provider::CmSink& sink_;
  Memory& memory_;
  provider::soft::AdapterSet set_;
  provider::soft::InboundIds ids_;
  std::set<std::string> hidden_;
  std::unique_ptr<LoopSink> loop_sink_;
  provider::soft::LoopCm loop_;
  DeviceCm device_;
  std::map<provider::CmId, std::unique_ptr<Connection>> connections_;
  std::map<provider::EndpointId, Reservation> reserved_;
  std::map<provider::CmId, EndId> local_ends_;  // Established in this host, not taken yet.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nd::sim
