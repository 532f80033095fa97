// SPDX-License-Identifier: Apache-2.0
// The daemon half over Network Direct adapters of the system: it makes no connection itself. It has the
// client half in the process of the owner make each one, and passes the reports on.
//
// A report is the word of a client. It counts for that client's own endpoints and attempts, in the order that
// a connection has; a report about others, or out of order, is an error of that client. A report about an
// attempt that the broker has ended is ignored, because the two may cross.
//
// Nothing here is of Windows, so that the tests of every system run it. Loop thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "provider/cm.h"
#include "provider/networkdirect/messages.h"

namespace nd::provider::networkdirect {

// An adapter, and where a client finds it. The description of one with a problem has only its name.
struct FoundAdapter {
  AdapterDescription description;
  std::string dll;
  ClassId class_id{};
};

class Clerk : public ConnectionManager {
 public:
  explicit Clerk(CmSink& sink) : sink_(sink) {}

  // Replaces the adapters, and tells the sink.
  void SetAdapters(std::vector<FoundAdapter> adapters);

  std::vector<AdapterDescription> adapters() const override;
  TransportKind transport() const override { return kTransport; }
  Status OnClientMessage(ClientId client, std::span<const std::byte> bytes) override;
  void OnClientGone(ClientId client) override;

  void ReserveFor(ClientId client, bool listens, EndpointId endpoint, const std::string& adapter,
                  const Address& local) override;
  void Release(EndpointId endpoint) override;
  void Listen(EndpointId endpoint, const std::string& adapter, const Address& local) override;
  void Unlisten(EndpointId endpoint) override;
  void Connect(const ConnectParams& params) override;
  void Accept(CmId id, const AcceptParams& params) override;
  void Reject(CmId id, Detail detail, const Bytes& private_data) override;
  void Confirm(CmId id) override;
  void Abort(CmId id) override;
  Result<HandOff> TakeHandOff(CmId id) override;
  Result<Address> Resolve(const std::string& adapter, const Address& remote) const override;
  std::uint32_t handshakes() const override { return static_cast<std::uint32_t>(attempts_.size()); }

 private:
  enum class State { kConnecting, kReplied, kConfirming, kArrived, kAccepting, kUp };
  struct Attempt {
    ClientId client{};
    std::uint64_t number = 0;  // That of the client half.
    State state = State::kConnecting;
  };
  struct Endpoint {
    ClientId client{};
    Address local;
    bool listens = false;
    bool reserving = true;
  };
  using Attempts = std::map<CmId, Attempt>;

  const FoundAdapter* Find(const std::string& name) const;
  Status Hello(ClientId client, const Message& message);
  void Reserved(ClientId client, const Message& message);
  Status Arrived(ClientId client, const Message& message);
  Status Reported(ClientId client, const Message& message);
  void Send(ClientId client, const Message& message);
  void SendAbout(EndpointId endpoint, Kind kind);
  // Forgets the attempt.
  void End(Attempts::iterator attempt);

  CmSink& sink_;
  std::vector<FoundAdapter> adapters_;
  std::map<ClientId, std::string> clients_;  // Those that have said Hello, with their adapter.
  std::map<EndpointId, Endpoint> endpoints_;
  Attempts attempts_;
  std::map<std::pair<ClientId, std::uint64_t>, CmId> by_number_;
  std::uint64_t last_arrived_ = 0;
};

}  // namespace nd::provider::networkdirect
