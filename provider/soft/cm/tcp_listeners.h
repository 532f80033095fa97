// SPDX-License-Identifier: Apache-2.0
// The listening TCP sockets: the shared port of separate mode and the held ND ports of tcp mode.
//
// Accepts every connection at once, in bounded batches, so that the backlog of the kernel never overflows. A
// connection is judged after it is accepted. The thread of the TcpHost only.
//
// Listening sockets outlive this object where the host keeps them. A kept socket of tcp mode that listens
// already is not accepted from until its endpoint listens.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nd/status.h"
#include "provider/cm.h"
#include "provider/soft/cm/adapter_set.h"
#include "provider/soft/cm/tcp_host.h"

namespace nd::provider::soft {

class TcpListeners {
 public:
  using OnAccept =
      std::function<void(std::unique_ptr<TcpSocket> socket, const std::string& adapter, PortMode mode)>;
  using OnError = std::function<void(int error)>;  // errno of accept().

  TcpListeners(TcpHost& host, const AdapterSet& adapters, OnAccept on_accept, OnError on_error);
  ~TcpListeners();
  TcpListeners(const TcpListeners&) = delete;
  TcpListeners& operator=(const TcpListeners&) = delete;

  // Opens the shared ports of all adapters. SHARING_VIOLATION, INVALID_ADDRESS, ACCESS_DENIED,
  // INSUFFICIENT_RESOURCES; an adapter that follows the host may fail on an address, which is tried again
  // later.
  Status Start();
  // Stops accepting on kept sockets, for good; returns whether there is one.
  bool Leave();
  // The addresses of adapters changed: opens and closes sockets accordingly.
  void Sync();

  // A listening socket that was made in another network.
  struct Served {
    Address address;
    std::unique_ptr<TcpListener> listener;
    bool kept = false;  // By TakeServed().
  };
  // Returns the socket that the previous process served a network with, at most once. No listener: there is
  // none.
  Served TakeServed(std::uint64_t network, const Address& address);
  // A socket of TakeServed() is not needed after all.
  void GiveBack(std::uint64_t network, Served served);
  // Accepts for the adapter of a network. The makers of the sockets share them: when one no longer listens,
  // or a call on it waited, nothing more is accepted from it, and `broken` is called within the work of this
  // object.
  void Serve(const std::string& adapter, std::uint64_t network, std::vector<Served> sockets,
             const std::function<void()>& broken);
  void StopServing(const std::string& adapter);

  // Returns the statuses of TcpHost::Hold. The unspecified address holds every address of the adapter.
  // Endpoints with the same address share its socket until the last of them is released; at most one of them
  // listens.
  Status Reserve(EndpointId endpoint, const std::string& adapter, const Address& local);
  void Release(EndpointId endpoint);
  void Listen(EndpointId endpoint);
  void Unlisten(EndpointId endpoint);
  // Returns a socket, bound to the port of the endpoint on `local`, for connecting.
  Result<std::unique_ptr<TcpSocket>> SocketFrom(EndpointId endpoint, const Address& local);

 private:
  struct Socket {
    std::unique_ptr<TcpListener> listener;
    std::string adapter;
    os::NetworkAddress at;
    PortMode mode = PortMode::kSeparate;
    bool watched = false;
    bool kept = false;
    std::function<void()> broken;  // Of Serve().
  };
  struct Endpoint {
    std::string adapter;
    Address local;
    bool listening = false;
    std::vector<std::shared_ptr<Socket>> sockets;
  };

  Status OpenShared(const Adapter& adapter, const Address& address);
  Status Hold(Endpoint& endpoint, const Address& address);
  // Releases the share of the endpoint in the socket.
  void Drop(const Endpoint& endpoint, const std::shared_ptr<Socket>& socket);
  bool ListenOnAll(Endpoint& endpoint);
  void Watch(Socket& socket);
  void Unwatch(Socket& socket);
  // Asks for a watched socket to be kept; returns false when that has to be tried again.
  bool Keep(Socket& socket);
  void EndListening(Socket& socket);
  // A port that was kept is held for a moment longer: until the service manager has closed its copy, it could
  // not be bound again.
  void CloseLater(Socket& socket);
  void AcceptBatch(Socket& socket);
  // Returns true when the socket is one of Serve() and is given up.
  bool GiveUp(Socket& socket, const TcpListener::Accepted& accepted);
  void OnDescriptorsExhausted();
  void SetPaused(bool paused);
  void Retry();
  bool SyncShared();
  bool SyncEndpoint(Endpoint& endpoint);

  TcpHost& host_;
  const AdapterSet& adapters_;
  const OnAccept on_accept_;
  const OnError on_error_;
  std::map<Address, std::unique_ptr<Socket>> shared_;           // By address and TCP port.
  std::multimap<std::string, std::unique_ptr<Socket>> served_;  // By adapter of another network.
  std::map<EndpointId, Endpoint> endpoints_;
  std::map<Address, std::weak_ptr<Socket>> held_;            // Of all endpoints, by address and port.
  std::map<Address, std::unique_ptr<TcpListener>> closing_;  // Of CloseLater(): bound, not listening.
  bool paused_ = false, leaving_ = false;
  EventLoop::TimerId resume_timer_{}, retry_timer_{}, closing_timer_{}, unclaimed_timer_{};
};

}  // namespace nd::provider::soft
