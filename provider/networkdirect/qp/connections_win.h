// SPDX-License-Identifier: Apache-2.0
// The endpoints, attempts and connections of one device. It carries out the orders of the daemon half by
// calls of the adapter, and reports what came of them (messages.h).
//
// OnMessage(), Forget(), Close() and ListenStatusOf() on the engine's thread; the rest on any thread, and
// none of those waits for the engine. The mutex is not held during a call of the adapter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "provider/networkdirect/messages.h"
#include "provider/networkdirect/qp/engine_win.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

// The queue pair of a connection, as this object sees it.
class ConnectionUser {
 public:
  virtual ~ConnectionUser() = default;
  // On the engine's thread, once: the peer has disconnected.
  virtual void OnPeerGone() = 0;
};

class Connections final : public std::enable_shared_from_this<Connections> {
 public:
  // `file` outlives the calls of this object.
  Connections(std::shared_ptr<Engine> engine, Com<spi::IND2Adapter> adapter, HANDLE file)
      : engine_(std::move(engine)), adapter_(std::move(adapter)), file_(file) {}

  void SetDaemon(std::shared_ptr<DaemonHalf> daemon);
  void OnMessage(const Message& message);
  // The daemon half is another one: endpoints and attempts are void, connections stay.
  void Forget();
  void Close();
  // The answer of the adapter to Listen at this address.
  Status ListenStatusOf(const Address& local) const;

  // Returns the number by which orders name the queue pair.
  std::uint32_t Add(Com<spi::IND2QueuePair> queue_pair);
  void Remove(std::uint32_t queue_pair);
  // Gives the queue pair its established connection. `user` gets OnPeerGone() from now on, also when the peer
  // has gone before. CONNECTION_INVALID: no such connection of this queue pair.
  Status Attach(std::uint64_t connection, std::uint32_t queue_pair, std::weak_ptr<ConnectionUser> user);
  // Ends the connection of the queue pair. `done` (may be null) gets SUCCESS, or IO_TIMEOUT when the adapter
  // has not answered in time, on the engine's thread.
  void Disconnect(std::uint32_t queue_pair, Duration timeout, std::function<void(Status)> done);

 private:
  struct Endpoint {
    Address local;
    bool listens = false;
    bool listening = false;
    Status listen_status;               // The answer of the adapter to Listen.
    Com<spi::IND2Connector> connector;  // Bound, and not used yet.
    Com<spi::IND2Listener> listener;
  };
  struct Attempt {
    Com<spi::IND2Connector> connector;
    std::uint32_t queue_pair = 0;
    std::uint64_t endpoint = 0;  // Of a request that arrived.
  };
  // An established connection.
  struct Link {
    Com<spi::IND2Connector> connector;
    std::uint32_t queue_pair = 0;
    Address local;
    bool attached = false, peer_gone = false;
    std::weak_ptr<ConnectionUser> user;
  };

  void Reserve(const Message& order);
  void Listen(std::uint64_t endpoint);
  void Unlisten(std::uint64_t endpoint);
  void Connect(const Message& order);
  void Accept(const Message& order);
  void Reject(const Message& order);
  void Confirm(std::uint64_t number);
  void Abort(std::uint64_t number);
  // Makes the bound object of an endpoint.
  HRESULT Bind(Endpoint* endpoint);
  Result<Com<spi::IND2Connector>> NewConnector();
  void AwaitRequest(std::uint64_t endpoint);
  void Arrived(std::uint64_t endpoint, const Com<spi::IND2Connector>& connector);
  void Connected(std::uint64_t number, HRESULT hr);
  void Established(std::uint64_t number, HRESULT hr);
  void PeerGone(std::uint64_t number);
  void Lose(Kind kind, std::uint64_t number, HRESULT hr, const char* call);
  void Report(const Message& message);
  Com<spi::IND2QueuePair> QueuePairOf(std::uint32_t number);
  bool HasLinkAt(const Address& local);

  const std::shared_ptr<Engine> engine_;
  const Com<spi::IND2Adapter> adapter_;
  const HANDLE file_;
  // Of the engine's thread.
  std::map<std::uint64_t, Endpoint> endpoints_;
  std::map<std::uint64_t, Attempt> attempts_;
  std::uint64_t last_arrived_ = 0;

  std::mutex mutex_;
  std::shared_ptr<DaemonHalf> daemon_;
  std::map<std::uint32_t, Com<spi::IND2QueuePair>> queue_pairs_;
  std::map<std::uint64_t, Link> links_;
  std::uint32_t last_queue_pair_ = 0;
};

}  // namespace nd::provider::networkdirect
