// SPDX-License-Identifier: Apache-2.0
// The TcpHost of one simulated broker: sockets over the simulated network, with the behaviour of a kernel
// that is as unpleasant as its contract allows.
//
// Readiness is level-triggered and comes late, so that events of different sockets change places; events also
// come for nothing. Peek() may stop before the last byte. Calls fail as they do without descriptors, memory
// or rights. A callback that changes nothing while its socket stays ready is a violation: a real loop would
// spin. To close a socket because its peer has finished, without a look at its last bytes, is a violation
// too.
//
// After Die(), and while the broker dies of a memory shortage, calls have no effect and draw no dice.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "provider/soft/cm/tcp_host.h"
#include "tests/sim/memory.h"
#include "tests/sim/net.h"

namespace nd::sim {

// Chances per mille.
struct TcpFaults {
  std::uint32_t refused = 0;    // A port cannot be held, a socket cannot be made, watched or connected.
  std::uint32_t stale = 0;      // An event is followed by a second one that is out of date.
  std::uint32_t late = 0;       // An event comes up to a few milliseconds late.
  std::uint32_t partial = 0;    // A peek returns only a part of the bytes.
  std::uint32_t exhausted = 0;  // No descriptor is left for a connection that waits.
  std::uint32_t unsendable = 0;
};

class SimTcp final : public provider::soft::TcpHost {
 public:
  SimTcp(int host, Schedule& schedule, Dice& dice, Net& net, Memory& memory)
      : host_(host), schedule_(schedule), dice_(dice), net_(net), memory_(memory) {}
  ~SimTcp() override { Die(); }

  TcpFaults faults;

  // The process ended: the kernel closes its sockets.
  void Die();
  // The stream that the last Release() gave up.
  EndId TakeReleased();
  // Streams that wait in the queue of a listening socket.
  std::size_t queued() const;
  std::size_t held_ports() const { return bound_.size(); }
  // Describes a socket that stays ready for ever; empty when there is none.
  const std::string& spins() const { return spins_; }
  // Describes bytes that a broker overlooked at the end of a stream; empty when there are none.
  const std::string& overlooked() const { return overlooked_; }
  // The answer of the host to a request for a port.
  Status Grant(const Address& address);

  Time Now() const override { return schedule_.now(); }
  EventLoop::TimerId At(Time when, EventLoop::Callback callback) override;
  void Cancel(EventLoop::TimerId timer) override;
  Result<std::unique_ptr<provider::soft::TcpSocket>> SocketFrom(const Address& local) override;
  Result<std::unique_ptr<provider::soft::TcpSocket>> SocketBeside(provider::soft::TcpListener* held,
                                                                  const Address& local) override;
  Result<std::unique_ptr<provider::soft::TcpListener>> Hold(const Address& address) override;
  Result<std::unique_ptr<provider::soft::TcpListener>> Listen(const Address& address) override;
  void RefillSpare() override {}
  bool keeps() const override { return false; }
  std::unique_ptr<provider::soft::TcpListener> Take(const os::NetworkAddress&) override { return nullptr; }
  bool Keep(const os::NetworkAddress&, const provider::soft::TcpListener&) override { return true; }
  void Drop(const os::NetworkAddress&) override {}
  void DropUnclaimed() override {}

 private:
  using Key = std::uint64_t;
  using Ready = provider::soft::Watched::Ready;
  struct Waiting {
    EndId end = 0;
    Address local, peer;
  };
  // The kernel's half of a socket. A socket that the kernel does not have any more has no entry.
  struct Kernel {
    explicit Kernel(const Address& bound) : local(bound) {}
    EndId end = 0;  // 0: not connecting yet, or a listening socket.
    Address local, peer;
    std::optional<int> connected;  // The result of Connect().
    bool reset_on_close = false, listening = false, told_closed = false;
    std::size_t low_water = 1;
    std::size_t unseen = 0;  // Bytes that the last peek did not show.
    std::deque<Waiting> queue;
    // The registration; 0: not watched.
    std::uint64_t registration = 0;
    std::uint32_t events = 0;
    std::shared_ptr<Ready> ready;
    bool posted = false;
    int idle = 0;  // Events since the last change.
  };
  class Watch;
  class Socket;
  class Listener;

  bool mute() const { return dead_ || memory_.gone(); }
  Kernel* Find(Key key);
  Key Make(Kernel kernel);
  std::uint32_t ReadinessOf(const Kernel& kernel) const;
  // Something changed: tells the watcher when the socket is ready.
  void Changed(Key key);
  void Post(Key key, Kernel& kernel);
  void Call(Key key, std::uint64_t registration, std::uint32_t events);
  void Close(Key key);

  const int host_;
  Schedule& schedule_;
  Dice& dice_;
  Net& net_;
  Memory& memory_;
  bool dead_ = false;
  std::map<Key, Kernel> kernels_;
  std::map<Address, Key> bound_;
  std::map<std::uint64_t, Schedule::Id> timers_;
  std::uint64_t last_ = 0;  // Keys, registrations and timers.
  EndId released_ = 0;
  std::string spins_, overlooked_;
  // Scheduled entries outlive this object, so they hold a weak reference to this.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace nd::sim
