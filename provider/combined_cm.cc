// SPDX-License-Identifier: Apache-2.0
// The core knows adapters, not providers.
#include "provider/combined_cm.h"

#include <algorithm>
#include <utility>

namespace nd::provider {

// Forwards every event and records which attempts are live.
class CombinedCm::Sink final : public CmSink {
 public:
  Sink(CombinedCm& owner, std::size_t place) : owner_(owner), place_(place) {}

  void OnReserved(EndpointId endpoint, const Status& status) override {
    owner_.sink_.OnReserved(endpoint, status);
  }
  void OnRequest(const InboundRequest& request) override {
    owner_.ids_[request.id] = place_;
    owner_.sink_.OnRequest(request);
  }
  void OnReached(CmId id) override { owner_.sink_.OnReached(id); }
  void OnReply(CmId id, bool limits_known, const ReadLimits& peer, const Bytes& private_data) override {
    owner_.sink_.OnReply(id, limits_known, peer, private_data);
  }
  void OnRejected(CmId id, const Status& status, const Bytes& private_data) override {
    owner_.ids_.erase(id);
    owner_.sink_.OnRejected(id, status, private_data);
  }
  void OnFailed(CmId id, const Status& status) override {
    owner_.ids_.erase(id);
    owner_.sink_.OnFailed(id, status);
  }
  void OnPrepare(CmId id, const Bytes& attributes) override { owner_.sink_.OnPrepare(id, attributes); }
  void OnEstablished(CmId id) override { owner_.sink_.OnEstablished(id); }
  void OnLost(CmId id, const Status& status, const Bytes& private_data) override {
    owner_.ids_.erase(id);
    owner_.sink_.OnLost(id, status, private_data);
  }
  void OnPeerClosed(CmId id, DisconnectReason reason) override { owner_.sink_.OnPeerClosed(id, reason); }
  void OnDisconnected(CmId id, const Status& status) override { owner_.sink_.OnDisconnected(id, status); }
  void OnAdaptersChanged() override {
    owner_.of_adapter_.clear();
    owner_.sink_.OnAdaptersChanged();
  }
  void SendToClient(ClientId client, std::span<const std::byte> message) override {
    owner_.sink_.SendToClient(client, message);
  }
  void OnAcceptError(int error) override { owner_.sink_.OnAcceptError(error); }

 private:
  CombinedCm& owner_;
  const std::size_t place_;
};

CombinedCm::CombinedCm(CmSink& sink) : sink_(sink) {}

CombinedCm::~CombinedCm() {
  // Managers may call their sinks while they are destroyed.
  managers_.clear();
}

CmSink& CombinedCm::NextSink() {
  sinks_.push_back(std::make_unique<Sink>(*this, managers_.size()));
  return *sinks_.back();
}

void CombinedCm::Add(std::unique_ptr<ConnectionManager> manager) {
  managers_.push_back(std::move(manager));
}

ConnectionManager* CombinedCm::OfAdapter(const std::string& adapter) const {
  if (const auto known = of_adapter_.find(adapter); known != of_adapter_.end()) return known->second;
  for (const auto& manager : managers_) {
    const std::vector<AdapterDescription> adapters = manager->adapters();
    const auto named = [&](const AdapterDescription& description) {
      return description.info.name == adapter;
    };
    if (std::any_of(adapters.begin(), adapters.end(), named))
      return of_adapter_.emplace(adapter, manager.get()).first->second;
  }
  return nullptr;
}

ConnectionManager* CombinedCm::OfId(CmId id) const {
  const auto found = ids_.find(id);
  return found == ids_.end() ? nullptr : managers_[found->second].get();
}

std::vector<AdapterDescription> CombinedCm::adapters() const {
  std::vector<AdapterDescription> all;
  for (const auto& manager : managers_) {
    std::vector<AdapterDescription> some = manager->adapters();
    std::move(some.begin(), some.end(), std::back_inserter(all));
  }
  return all;
}

void CombinedCm::Reserve(EndpointId endpoint, const std::string& adapter, const Address& local) {
  if (ConnectionManager* const manager = OfAdapter(adapter))
    return manager->Reserve(endpoint, adapter, local);
  sink_.OnReserved(endpoint, {StatusCode::kDeviceRemoved, "The adapter " + adapter + " was removed."});
}

void CombinedCm::ReserveFor(ClientId client, bool listens, EndpointId endpoint, const std::string& adapter,
                            const Address& local) {
  if (ConnectionManager* const manager = OfAdapter(adapter))
    return manager->ReserveFor(client, listens, endpoint, adapter, local);
  Reserve(endpoint, adapter, local);
}

// Each manager ignores endpoints of other managers.
void CombinedCm::Release(EndpointId endpoint) {
  for (const auto& manager : managers_) manager->Release(endpoint);
}

void CombinedCm::Listen(EndpointId endpoint, const std::string& adapter, const Address& local) {
  if (ConnectionManager* const manager = OfAdapter(adapter)) manager->Listen(endpoint, adapter, local);
}

void CombinedCm::Unlisten(EndpointId endpoint) {
  for (const auto& manager : managers_) manager->Unlisten(endpoint);
}

ConnectionManager* CombinedCm::Begin(const ConnectParams& params) {
  const ConnectionManager* const wanted = OfAdapter(params.adapter);
  for (std::size_t place = 0; place < managers_.size(); ++place) {
    if (managers_[place].get() != wanted) continue;
    ids_[params.id] = place;
    return managers_[place].get();
  }
  sink_.OnFailed(params.id, {StatusCode::kDeviceRemoved, "The adapter " + params.adapter + " was removed."});
  return nullptr;
}

void CombinedCm::Connect(const ConnectParams& params) {
  if (ConnectionManager* const manager = Begin(params)) manager->Connect(params);
}

void CombinedCm::ConnectFrom(const ConnectParams& params, UniqueFd socket) {
  if (ConnectionManager* const manager = Begin(params)) manager->ConnectFrom(params, std::move(socket));
}

void CombinedCm::Accept(CmId id, const AcceptParams& params) {
  if (ConnectionManager* const manager = OfId(id)) manager->Accept(id, params);
}

void CombinedCm::Reject(CmId id, Detail detail, const Bytes& private_data) {
  ConnectionManager* const manager = OfId(id);
  ids_.erase(id);
  if (manager != nullptr) manager->Reject(id, detail, private_data);
}

void CombinedCm::Confirm(CmId id) {
  if (ConnectionManager* const manager = OfId(id)) manager->Confirm(id);
}

void CombinedCm::Prepared(CmId id, const Status& status) {
  if (ConnectionManager* const manager = OfId(id)) manager->Prepared(id, status);
}

void CombinedCm::Abort(CmId id) {
  ConnectionManager* const manager = OfId(id);
  ids_.erase(id);
  if (manager != nullptr) manager->Abort(id);
}

void CombinedCm::Disconnect(CmId id) {
  if (ConnectionManager* const manager = OfId(id)) manager->Disconnect(id);
}

Result<HandOff> CombinedCm::TakeHandOff(CmId id) {
  if (ConnectionManager* const manager = OfId(id)) return manager->TakeHandOff(id);
  return Status{StatusCode::kConnectionInvalid, "The connection has ended."};
}

Result<Address> CombinedCm::Resolve(const std::string& adapter, const Address& remote) const {
  if (const ConnectionManager* const manager = OfAdapter(adapter)) return manager->Resolve(adapter, remote);
  return Status{StatusCode::kDeviceRemoved, "The adapter " + adapter + " was removed."};
}

ConnectionManager* CombinedCm::MessageTaker() const {
  const auto takes = [](const auto& m) { return m->transport() != TransportKind::kNone; };
  const auto found = std::ranges::find_if(managers_, takes);
  return found == managers_.end() ? nullptr : found->get();
}

TransportKind CombinedCm::transport() const {
  const ConnectionManager* const taker = MessageTaker();
  return taker == nullptr ? TransportKind::kNone : taker->transport();
}

Status CombinedCm::OnClientMessage(ClientId client, std::span<const std::byte> message) {
  ConnectionManager* const taker = MessageTaker();
  return taker == nullptr ? ConnectionManager::OnClientMessage(client, message)
                          : taker->OnClientMessage(client, message);
}

void CombinedCm::OnClientGone(ClientId client) {
  if (ConnectionManager* const taker = MessageTaker()) taker->OnClientGone(client);
}

ConnectionManager* CombinedCm::NetworkServer() const {
  const auto found = std::ranges::find_if(managers_, [](const auto& m) { return m->serves_networks(); });
  return found == managers_.end() ? nullptr : found->get();
}

Status CombinedCm::OpenNetwork(std::uint64_t network, std::vector<UniqueFd> sockets) {
  if (ConnectionManager* const server = NetworkServer())
    return server->OpenNetwork(network, std::move(sockets));
  return ConnectionManager::OpenNetwork(network, {});
}

void CombinedCm::CloseNetwork(std::uint64_t network) {
  if (ConnectionManager* const server = NetworkServer()) server->CloseNetwork(network);
}

bool CombinedCm::LeaveListeners() {
  bool any = false;
  for (const auto& manager : managers_) any |= manager->LeaveListeners();
  return any;
}

std::uint32_t CombinedCm::handshakes() const {
  std::uint32_t all = 0;
  for (const auto& manager : managers_) all += manager->handshakes();
  return all;
}

}  // namespace nd::provider
