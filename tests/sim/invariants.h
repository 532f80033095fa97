// SPDX-License-Identifier: Apache-2.0
// Conditions that must hold after every step. Each function returns an empty text, or the violation.
//
// They check from outside: rows and actions of the core, the streams, and the view of the applications. The
// check of the core itself (Broker::CheckInvariants) and the reference model (model.h) come in addition.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/host.h"
#include "tests/sim/tables.h"

namespace nd::sim {

// The records of the harness about one life of one broker.
struct Ledger {
  std::set<core::SessionId> open;
  std::map<core::SessionId, core::Identity> who;
  // How often each operation arrived, and how often it was answered.
  std::map<std::pair<core::SessionId, core::OpId>, std::uint32_t> asked, answered;
  std::set<provider::CmId> wire;  // Attempts that the wire knows.
  // Reserved or being reserved: adapter and local address.
  std::map<provider::EndpointId, std::pair<std::string, Address>> places;
  std::uint32_t reserves = 0;                     // ReservePorts without an answer.
  std::map<core::Handle, std::uint32_t> records;  // 1: reported as established and not as ended.
  std::map<core::Handle, Time> goodbyes;          // The time at which each connector began to disconnect.
  // By uid: connectors, listeners, shared endpoints, queue pairs and ports after the previous step.
  std::map<std::uint32_t, std::array<std::uint32_t, 5>> held;
  // Names of adapters that vanished once. An adapter that comes back is a new one, and ports of the former
  // one do not conflict with its ports.
  std::set<std::string> adapters, vanished;
  core::Policy policy;
  std::vector<core::Policy> policies;  // All policies of this life.
  core::Settings settings;
};

// Updates the ledger; checks I4, I5 and I8, which are about single events and actions.
std::string FollowEvent(Ledger& ledger, const core::Event& event);
std::string FollowActions(Ledger& ledger, const Host& host, const Tables& tables,
                          const core::Actions& actions);

std::string I1PortsHaveOneOwner(const Tables& tables, const Ledger& ledger);
// Against other programs, when ports are ports of the host.
std::string I1KeptPortsAreHeld(const Tables& tables, const Ledger& ledger);
std::string I2ChargesAreWithinQuota(const Tables& tables, Ledger& ledger);
std::string I3StreamsHaveOneOwner(const Net& net, Host& host);
std::string I3AttemptsMatchTheWire(Host& host, const Ledger& ledger);
std::string I4OperationsEndOnce(const Tables& tables, const Ledger& ledger);
std::string I6EndedSessionsHaveNoObjects(const Tables& tables, const Ledger& ledger);
std::string I7TimersHaveAPurpose(const Tables& tables, Time now, Time grace_ends);
std::string I9JournalEqualsHeldPorts(const Host& host, const Tables& tables, const Ledger& ledger);
std::string I10GoodbyesEndInTime(const Tables& tables, Ledger& ledger, Time now, Duration jumped);
// At rest no object is left.
std::string I9NothingIsLeft(Host& host, const Net& net);

}  // namespace nd::sim
