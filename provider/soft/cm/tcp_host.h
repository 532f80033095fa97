// SPDX-License-Identifier: Apache-2.0
// The host of the connection manager: TCP sockets, their readiness, and timers. TcpCm and TcpListeners use
// nothing else of the operating system. SystemTcp is this host; the simulator has another one.
//
// One thread. Nothing blocks. An object of the host may be destroyed at any time, in its own callback too,
// and calls nothing afterwards; it ends before its host. A callback may come for an event that has passed,
// so it asks the socket. Events are those of base/os/readiness.h, and level-triggered. Errors are values of
// errno; 0 means success.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/event_loop.h"
#include "base/os/accept.h"
#include "base/os/kept_sockets.h"
#include "base/turns.h"
#include "base/unique_fd.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::soft {

class Watched {
 public:
  using Ready = std::function<void(std::uint32_t events)>;

  virtual ~Watched() = default;
  // Sets the account of the callbacks (base/turns.h). Call it before Watch(); without it they belong to the
  // account of all peers.
  virtual void SetAccount(Account) {}
  // False: the host cannot watch it.
  [[nodiscard]] virtual bool Watch(std::uint32_t events, Ready ready) = 0;
  // Requires a watched socket.
  virtual void SetEvents(std::uint32_t events) = 0;
  virtual void Unwatch() = 0;
};

// One connection, or a socket that will connect. The destructor closes it.
class TcpSocket : public Watched {
 public:
  // Returns 0, EINPROGRESS (the socket becomes writable when it is connected or has failed) or another error.
  virtual int Connect(const Address& remote) = 0;
  // Returns the error of the connection, and forgets it.
  virtual int TakeError() = 0;
  // Malformed when there is none.
  virtual Address Local() const = 0;
  virtual Address Peer() const = 0;

  struct Peeked {
    std::size_t size = 0;  // 0 without an error: the peer has sent FIN, and every byte was read.
    int error = 0;         // EAGAIN: no byte has arrived.
  };
  // Copies the first unread bytes, or some of them, and leaves them unread.
  virtual Peeked Peek(std::span<std::byte> into) = 0;
  // Reads bytes that were peeked at and drops them.
  virtual int Consume(std::size_t count) = 0;
  // Sends all of `bytes`, which fit an empty send buffer.
  virtual int Send(std::span<const std::uint8_t> bytes) = 0;
  // True when the peer has sent FIN or RST. Every byte before it can then be peeked at.
  virtual bool PeerClosed() const = 0;
  // True when the peer host has acknowledged every byte that was sent.
  virtual bool NothingUnsent() const = 0;

  // With fewer unread bytes than this the socket is not readable.
  virtual void SetLowWater(std::size_t bytes) = 0;
  virtual void SetHandshakeOptions(Duration keepalive) = 0;
  virtual void SetHandOverOptions() = 0;
  // The close, also that by the end of the process, resets the connection.
  virtual void ResetOnClose(bool reset) = 0;

  // Gives the connection up for the hand-over. Only the destructor may be called afterwards.
  virtual UniqueFd Release() = 0;
};

// A socket that keeps a port and can listen.
class TcpListener : public Watched {
 public:
  // Start and Stop may alternate any number of times. False: another socket listens there.
  virtual bool StartListening() = 0;
  virtual void StopListening() = 0;

  struct Accepted {
    os::Accepted::Result result = os::Accepted::Result::kNone;
    std::unique_ptr<TcpSocket> socket;
    int error = 0;
  };
  virtual Accepted Accept() = 0;
  // Without descriptors: resets the connection that waits for the longest time, so that it does not block the
  // queue.
  virtual void RefuseOldest() = 0;
};

class TcpHost {
 public:
  virtual ~TcpHost() = default;

  virtual Time Now() const = 0;
  // The contract of EventLoop.
  virtual EventLoop::TimerId At(Time when, EventLoop::Callback callback) = 0;
  virtual void Cancel(EventLoop::TimerId timer) = 0;

  // A socket for connecting from `local`; its port is chosen at Connect(). INVALID_ADDRESS,
  // INSUFFICIENT_RESOURCES.
  virtual Result<std::unique_ptr<TcpSocket>> SocketFrom(const Address& local) = 0;
  // A socket for connecting from the port of `held`, which must not be listening; null: from a port that
  // nothing holds. Statuses of Hold.
  virtual Result<std::unique_ptr<TcpSocket>> SocketBeside(TcpListener* held, const Address& local) = 0;

  // Keeps every other program from the port, without listening. SHARING_VIOLATION, INVALID_ADDRESS (not an
  // address of this host), ACCESS_DENIED (privileged port), INSUFFICIENT_RESOURCES.
  virtual Result<std::unique_ptr<TcpListener>> Hold(const Address& address) = 0;
  // Listens from the start. Statuses of Hold.
  virtual Result<std::unique_ptr<TcpListener>> Listen(const Address& address) = 0;
  // Call it after a pause that followed RefuseOldest().
  virtual void RefillSpare() = 0;

  // Listening sockets that outlive this process; see os::KeptSockets. Take returns null when there is none. A
  // socket of another network namespace is shared with its maker.
  virtual bool keeps() const = 0;
  virtual std::unique_ptr<TcpListener> Take(const os::NetworkAddress& address) = 0;
  virtual bool Keep(const os::NetworkAddress& address, const TcpListener& listener) = 0;
  virtual void Drop(const os::NetworkAddress& address) = 0;
  virtual void DropUnclaimed() = 0;
};

}  // namespace nd::provider::soft
