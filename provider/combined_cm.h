// SPDX-License-Identifier: Apache-2.0
// Combines several connection managers into one. Each command goes to the manager of its adapter, endpoint or
// id.
//
// Active ids and endpoints belong to the manager that was called, inbound ids to the manager that reported
// them. The inbound ids of different managers must differ. Thread rule: the loop's thread, as for each of
// them.
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

  // The sink for the next manager; it lives as long as this object.
  CmSink& NextSink();
  // Adds the manager made with the newest sink. The adapters of earlier managers come first.
  void Add(std::unique_ptr<ConnectionManager> manager);

  std::vector<AdapterDescription> adapters() const override;
  void Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) override;
  void Release(EndpointId endpoint) override;
  void ReserveFor(ClientId client, bool listens, EndpointId endpoint, const std::string& adapter,
                  const Address& local) override;
  void Listen(EndpointId endpoint, const std::string& adapter, const Address& local) override;
  void Unlisten(EndpointId endpoint) override;
  void Connect(const ConnectParams& params) override;
  void ConnectFrom(const ConnectParams& params, UniqueFd socket) override;
  void Accept(CmId id, const AcceptParams& params) override;
  void Reject(CmId id, Detail detail, const Bytes& private_data) override;
  void Confirm(CmId id) override;
  void Prepared(CmId id, const Status& status) override;
  void Abort(CmId id) override;
  void Disconnect(CmId id) override;
  Result<HandOff> TakeHandOff(CmId id) override;
  Result<Address> Resolve(const std::string& adapter, const Address& remote) const override;
  bool serves_networks() const override { return NetworkServer() != nullptr; }
  Status OpenNetwork(std::uint64_t network, std::vector<UniqueFd> sockets) override;
  void CloseNetwork(std::uint64_t network) override;
  // That of the manager whose client half makes the connections, which may be one of them at most.
  TransportKind transport() const override;
  Status OnClientMessage(ClientId client, std::span<const std::byte> message) override;
  void OnClientGone(ClientId client) override;
  bool LeaveListeners() override;
  std::uint32_t handshakes() const override;

 private:
  class Sink;
  ConnectionManager* OfAdapter(const std::string& adapter) const;
  ConnectionManager* OfId(CmId id) const;
  // The manager that takes messages of clients; null: none does.
  ConnectionManager* MessageTaker() const;
  // The first manager that serves networks; null: none does.
  ConnectionManager* NetworkServer() const;
  // Records the attempt. Null: the adapter is gone, and the attempt has failed.
  ConnectionManager* Begin(const ConnectParams& params);

  CmSink& sink_;
  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<ConnectionManager>> managers_;
  // Found since the last change of the adapters: a description of all of them takes long.
  mutable std::map<std::string, ConnectionManager*> of_adapter_;
  std::map<CmId, std::size_t> ids_;  // Live attempts: the index of the manager.
};

}  // namespace nd::provider
