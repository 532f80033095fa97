// SPDX-License-Identifier: Apache-2.0
// The connection manager of one simulated host: soft's managers of TCP and of same-host connections over the
// simulated TCP, and the manager of a device. Sends each command to the manager that owns the id.
//
// Each call and each event of TCP is a piece of work in which the broker may run out of memory (memory.h).
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/inbound_ids.h"
#include "provider/soft/cm/loop_cm.h"
#include "provider/soft/cm/tcp_cm.h"
#include "tests/sim/device_cm.h"
#include "tests/sim/memory.h"
#include "tests/sim/sim_tcp.h"

namespace nd::sim {

// Chances per mille.
struct CmFaults {
  std::uint32_t reserve_slow = 200, no_descriptors = 5;
};

class HostCm {
 public:
  struct Options {
    int host = 0;
    provider::soft::Options soft;
    TcpFaults tcp;
    std::string device;  // Name of the device adapter; empty: none.
    std::vector<Address> device_addresses;
    bool device_limits_tight = false;
  };
  // An established connection on its way to a client.
  struct Transport {
    provider::HandOffRecord record;
    EndId end = 0;  // 0: a connection of a device, without a stream.
  };

  HostCm(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric, provider::CmSink& sink,
         Memory& memory);
  // The process died: the kernel closes its descriptors. After Stop() it ended in order.
  ~HostCm();
  HostCm(const HostCm&) = delete;
  HostCm& operator=(const HostCm&) = delete;

  CmFaults faults;

  std::vector<provider::AdapterDescription> adapters() const;
  Result<Address> Resolve(const std::string& adapter, const Address& remote) const;
  // Hidden adapters are removed from the host.
  void Hide(const std::string& adapter, bool hidden);

  void Reserve(provider::EndpointId endpoint, const std::string& adapter, const Address& local);
  void Release(provider::EndpointId endpoint);
  void Listen(provider::EndpointId endpoint);
  void Unlisten(provider::EndpointId endpoint);
  void Connect(const provider::ConnectParams& params);
  void Accept(provider::CmId id, const provider::AcceptParams& params);
  void Reject(provider::CmId id, Detail detail, const provider::Bytes& private_data);
  void Confirm(provider::CmId id);
  void Prepared(provider::CmId id, const Status& status) { device_.Prepared(id, status); }
  void Abort(provider::CmId id);
  void Disconnect(provider::CmId id);
  Result<Transport> Take(provider::CmId id);
  void Stop();
  // No more faults.
  void Settle();

  // Returns the live TCP attempts that the core knows.
  std::vector<provider::CmId> Attempts() const { return tcp_->attempts(); }
  // The rest is for the leak check.
  std::string Describe() const;
  std::size_t stream_ends() const;
  std::size_t reserved() const { return reserved_.size(); }
  // Ports of the host that the manager holds without a reservation.
  std::size_t stray_ports() const;
  std::size_t device_ends() const { return device_.size(); }
  std::size_t local_handshakes() const { return loop_.handshakes(); }
  const std::string& spins() const { return sim_tcp_.spins(); }
  const std::string& overlooked() const { return sim_tcp_.overlooked(); }

 private:
  struct Reservation {
    std::string adapter;
    Address local;
  };
  // Between the managers and the core.
  class Sink;

  bool OfDevice(const std::string& adapter) const { return adapter == options_.device; }
  std::vector<Address> AddressesOf(const Reservation& reservation) const;
  void GrantNow(provider::EndpointId endpoint);

  const Options options_;
  Schedule& schedule_;
  Dice& dice_;
  Net& net_;
  provider::CmSink& sink_;
  Memory& memory_;
  provider::soft::AdapterSet set_;
  provider::soft::InboundIds ids_;
  std::set<std::string> hidden_;
  SimTcp sim_tcp_;
  std::unique_ptr<Sink> own_sink_;
  provider::soft::LoopCm loop_;
  std::unique_ptr<provider::soft::TcpCm> tcp_;
  DeviceCm device_;
  std::map<provider::EndpointId, Reservation> reserved_;
  std::map<provider::CmId, EndId> local_ends_;  // Established in this host, not taken yet.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nd::sim
