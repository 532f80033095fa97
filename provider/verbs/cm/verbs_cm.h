// SPDX-License-Identifier: Apache-2.0
// The daemon half of verbs: rdma_cm on behalf of applications that own the queue pairs.
//
// Beyond provider/cm.h:
// - A queue pair number is used only after the kernel confirmed that the queue pair belongs to the process
// that names it; otherwise ACCESS_DENIED.
// - On InfiniBand and RoCE, OnPrepare comes between Confirm or Accept and OnEstablished. On iWARP the kernel
// changes the state of the queue pair, Confirm sends nothing, and the peer's Accept has completed with the
// reply (docs/verbs.md).
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "provider/cm.h"
#include "provider/verbs/cm/blocking_pool.h"
#include "provider/verbs/cm/connection.h"
#include "provider/verbs/cm/device_table.h"
#include "provider/verbs/cm/endpoint.h"
#include "provider/verbs/cm/options.h"
#include "provider/verbs/nldev.h"

namespace nd::provider::verbs {

// Thread rule: the loop's thread, as for every ConnectionManager.
class VerbsCm final : public ConnectionManager, public ConnectionHost {
 public:
  VerbsCm(const Options& options, EventLoop& loop, CmSink& sink);
  ~VerbsCm() override;

  std::vector<AdapterDescription> adapters() const override;
  void Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) override;
  void Release(EndpointId endpoint) override;
  void Listen(EndpointId endpoint, const std::string& adapter, const Address& local) override;
  void Unlisten(EndpointId endpoint) override;
  void Connect(const ConnectParams& params) override;
  void Accept(CmId id, const AcceptParams& params) override;
  void Reject(CmId id, Detail detail, const Bytes& private_data) override;
  void Confirm(CmId id) override;
  void Prepared(CmId id, const Status& status) override;
  void Abort(CmId id) override;
  void Disconnect(CmId id) override;
  Result<HandOff> TakeHandOff(CmId id) override;
  Result<Address> Resolve(const std::string& adapter, const Address& remote) const override;
  std::uint32_t handshakes() const override;

 private:
  EventLoop& loop() override { return loop_; }
  CmSink& sink() override { return sink_; }
  BlockingPool& pool() override { return *pool_; }
  Nldev& nldev() override { return nldev_; }
  const DeviceTable& devices() const override { return devices_; }
  void Forget(CmId id) override { connections_.erase(id); }
  void DestroyLater(std::shared_ptr<WireId> wire, const Address& bound) override;

  void OnDevicesChanged();
  void OnRequest(const CmEvent& event);
  // Takes the port. Waits while an id of ours that used it is being destroyed.
  void TryReserve(const std::shared_ptr<Endpoint>& endpoint, bool last);
  std::shared_ptr<Connection> Find(CmId id) const;

  EventLoop& loop_;
  CmSink& sink_;
  Nldev nldev_;
  // A function that a pool thread posts after the end of this object does nothing.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  bool ready_ = false;
  std::map<Address, unsigned>
      dying_;  // The number of bound ids that are being destroyed, by address and port.
  std::map<std::shared_ptr<Endpoint>, EventLoop::TimerId> waiting_;  // Reservations that wait for them.
  std::unique_ptr<BlockingPool> pool_;
  DeviceTable devices_;
  std::map<EndpointId, std::shared_ptr<Endpoint>> endpoints_;
  std::map<CmId, std::shared_ptr<Connection>> connections_;
  std::uint64_t next_inbound_ = 1;
};

}  // namespace nd::provider::verbs
