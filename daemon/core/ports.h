// SPDX-License-Identifier: Apache-2.0
// The ports of the broker: who holds them and who may take them, and the host ports behind them.
//
// A port belongs to an object of a session (PortClaim), to a process that held it before the broker restarted
// (a lease), or to a user for whom the administrator reserved it (a reservation). Where ND ports are ports of
// the host, the provider has to reserve each of them in the host too: Ports asks it for the ports of objects
// (AskHost), and for those of leases and reservations, which nobody uses and which must stay free.
//
// All tables of ports are private here. Objects are known by their handle only.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "daemon/core/adapter_state.h"
#include "daemon/core/event.h"
#include "daemon/core/lease.h"
#include "daemon/core/output.h"
#include "daemon/core/port_space.h"
#include "daemon/core/quota.h"
#include "daemon/core/report.h"
#include "daemon/core/settings.h"

namespace nd::core {

// The hold of an object on a local port: one reference to an entry of the port space.
struct PortClaim {
  std::optional<PortKey> key;
  bool reserving = false;        // Waits for CmReserved.
  bool any = false;              // Port 0 was requested, so the next candidate may be tried.
  std::uint32_t candidates = 0;  // Tried so far.
  // Host ports of the leases that this claim replaced. They are released after its own port was requested, so
  // that the port is never free.
  std::vector<EndpointId> replaced{};
};

// An object that takes a port, and its owner.
struct PortTaker {
  Handle object;
  AdapterNo adapter = 0;
  PortKind kind = PortKind::kConnector;
  PortOwner owner;
  std::optional<std::uint32_t> limit;  // Of ports of this user.
};

class Ports {
 public:
  struct Options {
    std::uint64_t seed = 0;
    // As in Broker::Options.
    std::optional<std::uint32_t> owner_uid;
    std::function<bool(const Process&)> may_come_back;
  };
  // `settings`, `adapters`, `quota` and `output` belong to the broker and outlive this object.
  Ports(Options options, const Settings& settings, const AdapterTable& adapters, Quota& quota,
        Output& output);

  // ---- ports of objects (ports.cc)
  // Takes `local` for `claim`, which must be empty; port 0 selects one. On SUCCESS *taken is the address with
  // its port.
  Status Take(const PortTaker& taker, const Address& local, PortClaim* claim, Address* taken);
  // The same for a connection that survived an earlier broker. It joins its listener, its shared endpoint or
  // its sister connections of the same session when they came back before it.
  Status TakeBack(const PortTaker& taker, bool passive, const Address& local, PortClaim* claim,
                  Address* taken);
  // Gives `claim` a reference to the port of `holder`, the claim of a listener or shared endpoint.
  void Join(const PortClaim& holder, PortClaim* claim);
  void Drop(PortClaim* claim);
  // The listener or shared endpoint `object` closes: only its connections keep the port.
  void SetClosing(const PortClaim& claim, Handle object);
  // Returns true when a connection may use the port of this shared endpoint, which must not be closing.
  bool MayJoin(const PortClaim& endpoint) const;
  // Returns true when the port is kept for this process after a restart of the broker.
  bool IsKeptFor(AdapterNo adapter, const Address& local, const Process& who) const;
  // Returns the listener that receives requests for `local`, if any.
  std::optional<Handle> ListenerAt(AdapterNo adapter, const Address& local) const;

  // ---- host ports of objects
  // Asks the provider for the host port if necessary; returns true when the answer is pending.
  bool AskHost(const PortTaker& taker, PortClaim* claim);
  // Returns the object whose claim this event answers. No value: it answered a lease or a reservation, or the
  // port was dropped in the meantime.
  std::optional<Handle> Answered(const CmReserved& event);
  // After a refusal by the provider, *status: drops the port and, for port 0, asks for another one. Returns
  // true when an answer is pending again; otherwise there is no port and *status is the result.
  bool TakeAnother(const PortTaker& taker, PortClaim* claim, Address* local, Status* status);
  EndpointId EndpointOf(const PortClaim& claim) const;

  // ---- leases (ports_lease.cc)
  // Returns true when there is a lease, which somebody has to end with EndLeases().
  bool HoldLeases(const std::vector<Lease>& leases);
  void EndLeases();
  // Asks the provider to hold the port of each lease of this adapter that is not held yet.
  void HoldHostPorts(AdapterNo adapter);

  // ---- reservations of the administrator (ports_reserve.cc)
  Status CheckReserve(const Address& local) const;
  Status CheckRelease(const Address& local) const;
  void Reserve(const ReservePort& event);
  void Release(const ReleasePort& event);
  // The broker stops: answers every pending ReservePort.
  void Stop();

  // ---- changes outside
  // The range of ephemeral ports in the settings changed.
  void SettingsChanged();
  // The adapter vanished: its ports leave the journal, because an adapter that returns is a new one.
  void ForgetLeasesOf(AdapterNo adapter);
  // The adapter vanished for good: frees the memory for its ephemeral ports.
  void ForgetPools(AdapterNo adapter) { space_.ForgetPools(adapter); }
  // The objects of the adapter were removed: its reservations end too.
  void DropReservationsOf(AdapterNo adapter);

  const PortSpace& space() const { return space_; }
  // Recounts the tables from the claims of all objects. `charge` checks and counts one charge.
  void CheckInvariants(const std::vector<std::pair<Handle, const PortClaim*>>& claims, bool leases_end,
                       const std::function<void(const Quota::Token&, std::uint32_t uid, Resource)>& charge,
                       Report* report) const;

 private:
  // An object that waits for its host port.
  struct Asked {
    Handle object;
    PortKey key;
  };
  // A host port without a user for which the provider was asked. `request`: that of the ReservePort; 0: for a
  // lease.
  struct Idle {
    PortKey key;
    std::uint64_t request = 0;
  };
  // A pending ReservePort.
  struct Reserving {
    ReservePort event;
    std::vector<std::pair<PortKey, EndpointId>> ports;
    std::uint32_t open = 0;  // Pending answers of the provider.
    Status status;           // The first that was not SUCCESS.
  };

  Status CheckPrivileged(const PortOwner& owner, const Address& local) const;
  // Checks that the user's share of ephemeral ports has room for this port (0: any).
  Status CheckShare(const PortOwner& owner, const PortKey& key);
  // Until the provider answers, the port belongs to its first holder only.
  bool Settled(const PortEntry& entry) const;

  // Asks the provider to hold an idle port; returns no endpoint when the provider does not hold idle ports.
  EndpointId HoldIdle(const PortKey& key, std::uint64_t request);
  void LetGo(EndpointId endpoint);
  void AnsweredIdle(const Idle& idle, const CmReserved& event);

  // Releases its host port at once, or adds it to `replaced`.
  void DropLease(const PortKey& key, std::vector<EndpointId>* replaced = nullptr);
  // Drops the leases that conflict with `key` and whose holders have ended.
  void DropDeadLeases(const PortKey& key, const Process& asks);

  // Returns one key for each adapter of the host that has the address.
  std::vector<PortKey> KeysOf(const Address& local) const;
  // Drops the reservation of exactly this key; returns false when there is none.
  bool DropReservation(const PortKey& key);
  // Handles the answer of the provider for one port of a ReservePort; the last answer completes it.
  void AnswerReserve(std::uint64_t request, const Status& status);

  const std::optional<std::uint32_t> owner_uid_;
  const std::function<bool(const Process&)> may_come_back_;
  const Settings& settings_;
  const AdapterTable& adapters_;
  Quota& quota_;
  Output& output_;

  PortSpace space_;
  std::uint64_t next_endpoint_ = 1;
  std::uint64_t next_request_ = 1;
  absl::flat_hash_map<std::uint64_t, Asked> asked_;      // By EndpointId.
  absl::flat_hash_map<std::uint64_t, Idle> idle_asked_;  // By EndpointId.
  absl::btree_map<std::uint64_t, Reserving> reserving_;  // By request.
};

}  // namespace nd::core
