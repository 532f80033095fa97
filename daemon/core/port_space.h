// SPDX-License-Identifier: Apache-2.0
// The holders of ND ports: the conflict table of the specification, reference counts, ephemeral ports.
//
// Ports of different adapters or families never conflict. The unspecified address conflicts with every
// address of its family on its adapter. An entry lives while it has references.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "daemon/core/ephemeral_pool.h"
#include "daemon/core/ids.h"
#include "daemon/core/lease.h"
#include "daemon/core/prng.h"
#include "daemon/core/quota.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"

namespace nd::core {

// Rows and columns of the table.
enum class Holding : std::uint8_t {
  kNothing,
  kListener,
  kListenerClosing,
  kConnector,
  kEndpoint,
  kEndpointClosing,
  kLease
};
enum class Newcomer : std::uint8_t { kListen, kExclusive, kCreateEndpoint, kConnectShared, kInbound };
enum class PortAnswer : std::uint8_t { kOk, kSharingViolation, kRefused, kNotApplicable };
// Pure. Inbound and ConnectShared: kOk unless the 4-tuple is taken.
PortAnswer MayTake(Holding existing, Newcomer newcomer);

struct PortKey {
  AdapterNo adapter = 0;
  Address::Family family{};
  std::uint16_t port = 0;
  Address ip;  // Port 0; may be unspecified.
  friend auto operator<=>(const PortKey&, const PortKey&) = default;
  Address local() const { return ip.WithPort(port); }
  static PortKey Of(AdapterNo adapter, const Address& local) {
    return {adapter, local.family(), local.port(), local.WithPort(0)};
  }
};

struct PortOwner {
  SessionId session{};
  std::uint32_t uid = 0, pid = 0;
  std::uint64_t born = 0;
  Process process() const { return {uid, pid, born}; }
};

struct PortEntry {
  PortKind kind = PortKind::kConnector;
  bool closing = false;     // The listener or endpoint closed; only its connectors keep the port.
  bool reattached = false;  // Has only connections that survived an earlier broker.
  Handle holder;            // The listener, endpoint, or first connector.
  PortOwner owner;
  std::uint32_t references = 0;
  provider::EndpointId endpoint{};
  bool reserved = false;  // The provider holds (or was asked to hold) the host port.
  Status unheld;          // Of a lease: the reason why the provider does not hold the port.
  Quota::Token charge;
  std::uint64_t created = 0;  // Order of creation.

  Holding holding() const;
};

// The ephemeral ports of one address, as a user sees them.
struct PortUse {
  std::uint32_t range = 0, free = 0;
  std::uint32_t held = 0;  // Ports that the user holds, leases included.
};

// A port that the administrator reserves for one user or for no user.
struct PortReservation {
  std::optional<std::uint32_t> uid;
  std::string comment;
  provider::EndpointId endpoint{};  // The reservation of the provider for it; 0: none.
  std::uint64_t created = 0;        // Order of creation, together with the entries.
};

class PortSpace {
 public:
  PortSpace(std::uint64_t seed, std::uint16_t first, std::uint16_t last);

  // Returns SUCCESS or SHARING_VIOLATION. Leases of `who`, if given, do not conflict.
  Status Check(const PortKey& key, Newcomer newcomer, const Process* who = nullptr) const;
  // The leases that conflict with a newcomer at `key` and whose holders satisfy `of`.
  std::vector<PortKey> Leases(const PortKey& key, const std::function<bool(const Process&)>& of) const;
  // SHARING_VIOLATION when a reservation for another user covers the port.
  Status CheckReserved(const PortKey& key, std::uint32_t uid) const;
  // SHARING_VIOLATION when an entry or another reservation conflicts, as for a bind.
  Status CheckReserve(const PortKey& key) const;
  // Requires a successful CheckReserve.
  void Reserve(const PortKey& key, PortReservation reservation);
  // Removes and returns the reservation of exactly this key, if any.
  std::optional<PortReservation> Unreserve(const PortKey& key);
  // Returns a free ephemeral port for the IP of `local`; TOO_MANY_ADDRESSES when there is none.
  Result<std::uint16_t> Choose(AdapterNo adapter, const Address& local);
  // Adds an entry with one reference. Requires a successful Check or Choose.
  PortEntry& Add(const PortKey& key, PortEntry entry);
  void AddReference(const PortKey& key);
  // Drops one reference; returns the entry when it was the last one.
  std::optional<PortEntry> Release(const PortKey& key);

  PortEntry* Find(const PortKey& key);
  const PortEntry* Find(const PortKey& key) const;
  // The entry that receives requests for `local`: that of exactly this address, else that of the unspecified
  // one.
  std::optional<PortKey> Match(AdapterNo adapter, const Address& local) const;

  void SetRange(std::uint16_t first, std::uint16_t last);
  // Frees the lists of free ephemeral ports of this adapter. They are made again when they are needed.
  void ForgetPools(AdapterNo adapter);
  // Ports of the ephemeral range in use on this adapter.
  std::uint32_t EphemeralUsed(AdapterNo adapter) const;
  bool IsEphemeral(std::uint16_t port) const { return port >= first_ && port <= last_; }
  // Of the address of `key`, for this user.
  PortUse EphemeralUse(const PortKey& key, std::uint32_t uid);

  // In order of (adapter, family, port, ip).
  const absl::btree_map<PortKey, PortEntry>& entries() const { return entries_; }
  const absl::btree_map<PortKey, PortReservation>& reservations() const { return reservations_; }

 private:
  struct PoolKey {
    AdapterNo adapter = 0;
    Address ip;
    friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
  };
  // Ephemeral ports that a user holds at `ip`; at Address(): at any address of the family.
  struct HeldKey {
    AdapterNo adapter = 0;
    Address::Family family{};
    Address ip;
    std::uint32_t uid = 0;
    friend auto operator<=>(const HeldKey&, const HeldKey&) = default;
  };
  void CountHeld(const PortKey& key, std::uint32_t uid, bool taken);
  std::uint32_t Held(const HeldKey& key) const;
  bool Taken(AdapterNo adapter, const Address& ip, std::uint16_t port) const;
  EphemeralPool& Pool(AdapterNo adapter, const Address& ip);
  // Updates the pools of one adapter and family after `key` was added or erased.
  void Refresh(const PortKey& key);

  std::uint16_t first_, last_;
  Prng prng_;
  std::uint64_t next_created_ = 1;
  absl::btree_map<PortKey, PortEntry> entries_;
  absl::btree_map<PortKey, PortReservation> reservations_;
  absl::btree_map<PoolKey, EphemeralPool> pools_;
  absl::btree_map<AdapterNo, std::uint32_t> ephemeral_used_;
  absl::btree_map<HeldKey, std::uint32_t> ephemeral_held_;
};

}  // namespace nd::core
