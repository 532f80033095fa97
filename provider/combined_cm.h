// SPDX-License-Identifier: Apache-2.0
// Several connection managers as one: adapters add up, and everything goes to the one that it is of.
//
// Ids tell managers apart by who was asked (active, endpoints) or who asked (inbound); inbound ids of different
// managers must differ, which their makers see to. Thread rule: the loop's thread, as for each of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "provider/cm.h"

namespace nd::provider {

class CombinedCm final : public ConnectionManager {
 public:
  explicit CombinedCm(CmSink& sink);
  ~CombinedCm() override;

  // What the next manager must be made with; lives as long as this object.
  CmSink& NextSink();
  // The manager made with the newest sink. Adapters of earlier ones come first.
  void Add(std::unique_ptr<ConnectionManager> manager);

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
  class Sink;
  ConnectionManager* OfAdapter(const std::string& adapter) const;
  ConnectionManager* OfId(CmId id) const;

  CmSink& sink_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<ConnectionManager>> managers_;
  std::map<CmId, std::size_t> ids_;  // Live attempts: the manager's place.
};

}  // namespace nd::provider
