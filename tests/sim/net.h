// SPDX-License-Identifier: Apache-2.0
// A simulated TCP: byte streams that arrive late, in pieces, or not at all, and can break at any byte.
//
// Bytes of one direction keep their order; separate connections do not. The watch of a reader reports every
// change; the reader uses Peek and Consume. Bytes to a closed end cause a reset, as in a kernel. Every open
// end has exactly one owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "nd/types.h"
#include "provider/cm.h"
#include "tests/sim/dice.h"
#include "tests/sim/schedule.h"

namespace nd::sim {

using provider::Bytes;
using EndId = std::uint64_t;  // The number of an end; 0: none. The two ends of a connection are 2n and 2n+1.

enum class Owner : std::uint8_t { kBroker, kMessage, kApplication, kForeign };
const char* Name(Owner owner);

// The faults of the network, in chances per mille.
struct NetFaults {
  std::uint32_t slow = 50;        // A connection whose bytes take seconds.
  std::uint32_t shredded = 150;   // Bytes arrive in random small pieces.
  std::uint32_t reset = 20;       // Reset after a random byte.
  std::uint32_t blackhole = 10;   // No byte passes after a random position.
  std::uint32_t lost_syn = 10;    // A connect without an answer.
  std::uint32_t unreachable = 5;  // A connect that fails with an error.
  std::uint32_t shaken = 1;       // At every Send: this connection breaks now.
};

class Net {
 public:
  using Acceptor = std::function<void(EndId end, const Address& local, const Address& peer)>;

  Net(Schedule& schedule, Dice& dice) : schedule_(schedule), dice_(dice) {}

  NetFaults faults;

  // Returns false when the address has a listener.
  bool Listen(const Address& at, Acceptor acceptor);
  void Unlisten(const Address& at) { listeners_.erase(at); }

  // The result (0 or an errno) comes later, unless the end is closed before.
  EndId Connect(const Address& local, const Address& remote, Owner owner, int host,
                const std::function<void(int error)>& answer);
  // Makes a connected pair inside one host, without faults. The second end is the returned one plus 1.
  EndId MakePair(Owner owner, int host);

  void Watch(EndId end, std::function<void()> changed);
  void SetOwner(EndId end, Owner owner, int host);

  std::span<const std::uint8_t> Peek(EndId end) const;
  void Consume(EndId end, std::size_t count);
  // Returns true when every byte was read and the peer sends no more.
  bool AtEnd(EndId end) const;
  bool PeerFinished(EndId end) const;
  // Returns 0, ECONNRESET or ETIMEDOUT.
  int Error(EndId end) const;
  bool IsOpen(EndId end) const { return ends_.contains(end); }

  // Returns false when the stream is broken.
  bool Send(EndId end, std::span<const std::uint8_t> bytes);
  // Returns true when every byte that was sent has arrived.
  bool AllArrived(EndId end) const;
  void Shutdown(EndId end);
  // Closes an end. Unread bytes turn the close into a reset.
  void Close(EndId end, bool reset);
  // A machine vanishes from the network and comes back.
  void Cut(EndId end);

  // Returns true for an end that ever belonged to a foreign peer.
  bool WasForeign(EndId end) const { return foreign_.contains(end); }
  static EndId PeerOf(EndId end) { return end ^ 1; }
  std::size_t open_ends() const { return ends_.size(); }
  std::size_t CountOwned(Owner owner, int host) const;
  std::string Describe() const;
  std::uint64_t bytes_delivered() const { return bytes_delivered_; }

 private:
  struct End {
    Owner owner = Owner::kBroker;
    int host = 0;
    bool connected = false, local = false;
    bool sent_fin = false, got_fin = false;
    int error = 0;
    Bytes received;
    std::size_t read = 0;
    std::function<void()> changed;
    // Of the bytes that this end sends.
    Duration delay{};
    bool shredded = false, dead = false;
    std::uint64_t sent = 0, reset_at = ~std::uint64_t{0}, hole_at = ~std::uint64_t{0};
    Time last_arrival{};
  };

  End* Find(EndId end);
  const End* Find(EndId end) const;
  void Draw(End& end);
  Time Arrival(End& from);
  void Deliver(EndId to, Bytes bytes);
  void DeliverReset(EndId to, Duration delay, int error);
  void Tell(EndId end);

  Schedule& schedule_;
  Dice& dice_;
  std::map<Address, Acceptor> listeners_;
  std::map<EndId, End> ends_;
  std::set<EndId> foreign_;
  EndId next_ = 2;
  std::uint64_t bytes_delivered_ = 0;
};

}  // namespace nd::sim
