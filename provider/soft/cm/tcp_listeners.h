// SPDX-License-Identifier: Apache-2.0
// Every TCP socket that others connect to: the shared port of separate mode and the held ND ports of tcp
// mode.
//
// Accepts everything at once, in bounded batches, so that the kernel's backlog never answers for us; what a
// connection is worth is judged later. Loop thread only.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"

namespace nd::provider::soft {

class TcpListeners {
 public:
  using OnAccept = std::function<void(UniqueFd fd, const std::string& adapter, PortMode mode)>;
  using OnError = std::function<void(int error)>;  // errno of accept().

  TcpListeners(EventLoop& loop, const AdapterSet& adapters, OnAccept on_accept, OnError on_error);
  ~TcpListeners();
  TcpListeners(const TcpListeners&) = delete;
  TcpListeners& operator=(const TcpListeners&) = delete;

  // Opens the shared ports of all adapters. SHARING_VIOLATION, INVALID_ADDRESS, ACCESS_DENIED,
  // INSUFFICIENT_RESOURCES; addresses that merely follow the host may fail and are tried again later.
  Status Start();
  // The adapters' addresses changed: opens and closes what follows from that.
  void Sync();

  // Statuses of HoldPort; with the unspecified address every address of the adapter is held. An address that
  // another endpoint holds is held together with it, until the last of them is released; at most one listens.
  Status Reserve(EndpointId endpoint, const std::string& adapter, const Address& local);
  void Release(EndpointId endpoint);
  void Listen(EndpointId endpoint);
  void Unlisten(EndpointId endpoint);
  // A socket bound to the endpoint's port on `local`, for connecting.
  Result<UniqueFd> BindFrom(EndpointId endpoint, const Address& local);

 private:
  struct Socket {
    UniqueFd fd;
    std::string adapter;
    Address address;
    PortMode mode = PortMode::kSeparate;
    bool watched = false;
  };
  struct Endpoint {
    std::string adapter;
    Address local;
    bool listening = false;
    std::vector<std::shared_ptr<Socket>> sockets;
  };

  Status OpenShared(const Adapter& adapter, const Address& address);
  Status Hold(Endpoint& endpoint, const Address& address);
  // Gives the endpoint's part of it back.
  void Drop(const Endpoint& endpoint, const std::shared_ptr<Socket>& socket);
  bool ListenOnAll(Endpoint& endpoint);
  void Watch(Socket& socket);
  void Unwatch(Socket& socket);
  void AcceptBatch(Socket& socket);
  void OnDescriptorsExhausted();
  void SetPaused(bool paused);
  void Retry();
  bool SyncShared();
  bool SyncEndpoint(Endpoint& endpoint);

  EventLoop& loop_;
  const AdapterSet& adapters_;
  const OnAccept on_accept_;
  const OnError on_error_;
  std::map<Address, std::unique_ptr<Socket>> shared_;  // By address and TCP port.
  std::map<EndpointId, Endpoint> endpoints_;
  std::map<Address, std::weak_ptr<Socket>> held_;  // Of all endpoints, by address and port.
  UniqueFd reserve_;  // Given up to take a connection off the queue when no other descriptor is left.
  bool paused_ = false;
  EventLoop::TimerId resume_timer_{}, retry_timer_{};
};

}  // namespace nd::provider::soft
