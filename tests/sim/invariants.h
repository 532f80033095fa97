// SPDX-License-Identifier: Apache-2.0
// What must be true after every step, whatever happened. Each returns nothing or what is wrong.
//
// These look at the world from outside: at the core's rows and actions, at the streams and the applications'
// view. The core's own recount (Broker::CheckInvariants) and the reference model (model.h) come on top.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/sim/host.h"

namespace nd::sim {

// What the harness itself knows of one life of one broker.
struct Ledger {
  std::set<core::SessionId> open;
  std::map<core::SessionId, core::Identity> who;
  // Operations that arrived and have not ended, and how often each that ended was answered beyond the once
  // that a repeat allows.
  std::map<std::pair<core::SessionId, core::OpId>, std::uint32_t> asked, answered;
  std::set<provider::CmId> wire;  // Attempts that the wire knows.
  // Reserved or being reserved: adapter and local address.
  std::map<provider::EndpointId, std::pair<std::string, Address>> places;
  std::uint32_t reserves = 0;                     // ReservePorts without an answer.
  std::map<core::Handle, std::uint32_t> records;  // 1: told of as established and not as ended.
  std::map<core::Handle, Time> goodbyes;          // Since when a connector is Disconnecting.
  // By uid: connectors, listeners, shared endpoints, queue pairs, ports after the step before.
  std::map<std::uint32_t, std::array<std::uint32_t, 5>> held;
  // Names of adapters that vanished once: one that comes back is another adapter, and what the former one
  // still holds is in nobody's way.
  std::set<std::string> adapters, vanished;
  core::Policy policy;
  std::vector<core::Policy> policies;  // All of this life.
  core::Settings settings;
};

// Keeps the ledger; I4, I5 and I8 are about single events and actions.
std::string FollowEvent(Ledger& ledger, const core::Event& event);
std::string FollowActions(Ledger& ledger, const Host& host, const core::Actions& actions);

std::string I1PortsHaveOneOwner(const core::Broker& broker, const Ledger& ledger);
// From other programs, where ports are the host's.
std::string I1KeptPortsAreHeld(const core::Broker& broker, const Ledger& ledger);
std::string I2ChargesAreWithinQuota(const core::Broker& broker, Ledger& ledger);
std::string I3StreamsHaveOneOwner(const Net& net, Host& host);
std::string I3AttemptsAreOfBothSides(Host& host, const Ledger& ledger);
std::string I4OperationsEndOnce(const core::Broker& broker, const Ledger& ledger);
std::string I6NothingOfTheDeadIsLeft(const core::Broker& broker, const Ledger& ledger);
std::string I7TimersBelongToTheLiving(const core::Broker& broker, Time now, Time grace_ends);
std::string I9JournalEqualsLife(const Host& host, const Ledger& ledger);
std::string I10GoodbyesEndInTime(const core::Broker& broker, Ledger& ledger, Time now, Duration jumped);
// At rest: nothing is left of anything.
std::string I9NothingIsLeft(Host& host, const Net& net);

}  // namespace nd::sim
