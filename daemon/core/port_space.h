// SPDX-License-Identifier: Apache-2.0
// Who holds which ND port: the conflict table of the specification, reference counts, ephemeral choice.
//
// Ports of different adapters or families never conflict. The unspecified address conflicts with every
// address of its family on its adapter. An entry lives while anything refers to it.
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

using AdapterNo = std::uint32_t;

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
  bool reattached = false;  // Made only of connections that outlived an earlier broker.
  Handle holder;            // The listener, endpoint, or first connector.
  PortOwner owner;
  std::uint32_t references = 0;
  provider::EndpointId endpoint{};
  bool reserved = false;  // The provider holds (or was asked to hold) the host port.
  Status unheld;          // Of a lease: why the provider does not hold it.
  Quota::Token charge;
  std::uint64_t created = 0;  // Order of creation.

  Holding holding() const;
};

// A port that the administrator keeps free, for one user or for nobody.
struct PortReservation {
  std::optional<std::uint32_t> uid;
  std::string comment;
  provider::EndpointId endpoint{};  // What the provider holds for it; 0: nothing.
  std::uint64_t created = 0;        // Order of creation, together with the entries.
};

class PortSpace {
 public:
  PortSpace(std::uint64_t seed, std::uint16_t first, std::uint16_t last);

  // SUCCESS, or SHARING_VIOLATION. Leases of `who`, if given, are in nobody's way.
  Status Check(const PortKey& key, Newcomer newcomer, const Process* who = nullptr) const;
  // The leases in the way of a newcomer at `key` whose holders `of` is true for.
  std::vector<PortKey> Leases(const PortKey& key, const std::function<bool(const Process&)>& of) const;
  // SHARING_VIOLATION when a reservation for somebody else covers it.
  Status CheckReserved(const PortKey& key, std::uint32_t uid) const;
  // SHARING_VIOLATION when an entry or another reservation is in the way; as for a bind.
  Status CheckReserve(const PortKey& key) const;
  // The place is known to be free (CheckReserve).
  void Reserve(const PortKey& key, PortReservation reservation);
  // The one of exactly this key, if there is one.
  std::optional<PortReservation> Unreserve(const PortKey& key);
  // A port for `local`'s IP out of the ephemeral range: TOO_MANY_ADDRESSES when there is none.
  Result<std::uint16_t> Choose(AdapterNo adapter, const Address& local);
  // A new entry with one reference. The place is known to be free (Check, Choose).
  PortEntry& Add(const PortKey& key, PortEntry entry);
  void AddReference(const PortKey& key);
  // Gives one reference back; the entry itself when that was the last one.
  std::optional<PortEntry> Release(const PortKey& key);

  PortEntry* Find(const PortKey& key);
  const PortEntry* Find(const PortKey& key) const;
  // Where a request for `local` arrives: the entry of exactly that address, else of the unspecified one.
  std::optional<PortKey> Match(AdapterNo adapter, const Address& local) const;

  void SetRange(std::uint16_t first, std::uint16_t last);
  // Ports of the ephemeral range in use on this adapter.
  std::uint32_t EphemeralUsed(AdapterNo adapter) const;

  // In order of (adapter, family, port, ip).
  const absl::btree_map<PortKey, PortEntry>& entries() const { return entries_; }
  const absl::btree_map<PortKey, PortReservation>& reservations() const { return reservations_; }

 private:
  struct PoolKey {
    AdapterNo adapter = 0;
    Address ip;
    friend auto operator<=>(const PoolKey&, const PoolKey&) = default;
  };
  bool Taken(AdapterNo adapter, const Address& ip, std::uint16_t port) const;
  EphemeralPool& Pool(AdapterNo adapter, const Address& ip);
  // Brings the pools of one adapter and family in line after `key` was added or erased.
  void Refresh(const PortKey& key);

  std::uint16_t first_, last_;
  Prng prng_;
  std::uint64_t next_created_ = 1;
  absl::btree_map<PortKey, PortEntry> entries_;
  absl::btree_map<PortKey, PortReservation> reservations_;
  absl::btree_map<PoolKey, EphemeralPool> pools_;
  absl::btree_map<AdapterNo, std::uint32_t> ephemeral_used_;
};

}  // namespace nd::core
