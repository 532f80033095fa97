// SPDX-License-Identifier: Apache-2.0
// The slots of a listening socket that untrusted clients can reach, shared between the sources of the
// connections.
//
// A connection is either waiting, while its client has to send or to read, or being served. When every slot
// is taken, a new connection gets the slot of a waiting one: silent connections go before slow readers; among
// these the source with the most connections loses its oldest. So a crowd of silent clients only costs its
// own slots, and a client that sends its request at once is served at once. Plain values of one thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace nd::ops {

class SourceSlots {
 public:
  using Id = std::uint64_t;
  // At most `served` of the `places` are served at once, and three quarters of those for one source.
  SourceSlots(std::size_t places, std::size_t served) : places_(places), served_(served) {}

  struct Entry {
    bool admitted = false;      // False: every slot is being served.
    std::optional<Id> evicted;  // Lost its slot to the new connection; the caller closes it.
  };
  // Adds the new connection `id` as waiting.
  Entry Enter(Id id, const std::string& source);
  // The client has sent its request. Returns false when too many are being served; it then keeps waiting.
  bool Serve(Id id);
  // The client has to read the response.
  void AwaitReader(Id id);
  void Leave(Id id);
  bool Has(Id id) const { return connections_.contains(id); }

  std::size_t size() const { return connections_.size(); }

 private:
  enum class Turn { kSilent, kReader, kServed };
  struct Connection {
    std::string source;
    Turn turn = Turn::kSilent;
    std::uint64_t since = 0;
  };
  std::optional<Id> Longest(Turn turn) const;

  const std::size_t places_, served_;
  std::map<Id, Connection> connections_;
  std::uint64_t turns_ = 0;
};

// Returns the source of a connected socket: the address of an IPv4 peer, the /64 of an IPv6 peer, the user at
// the other end of a Unix socket.
std::string SourceOf(int socket);

}  // namespace nd::ops
