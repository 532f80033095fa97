// SPDX-License-Identifier: Apache-2.0
// Shared by the scenarios: a connected pair, and the report of failed checks.
#pragma once

#include <cstdint>
#include <string>

#include "tests/vm/proof_world.h"

namespace nd::vm {

// Collects the failed checks of one scenario.
class Case {
 public:
  explicit Case(std::string name) : name_(std::move(name)) {}
  void Check(bool holds, const char* what, int line);
  // Prints the line of this scenario; true when everything held.
  bool Report(const std::string& adapter) const;

 private:
  std::string name_, failures_;
};
#define ND_CHECK(c, condition) (c).Check(condition, #condition, __LINE__)

struct Pair {
  bool up = false;
  Side active, passive;
  CmId active_id{}, passive_id{};
  provider::InboundRequest request;
  Told reply;
  EndpointId listen_endpoint{}, connect_endpoint{};
};

// Listens, connects and completes on one adapter, with these limits and this private data both ways.
Pair ConnectPair(World& world, const AdapterInfo& adapter, Case& c, ReadLimits offer = {8, 4},
                 ReadLimits accept = {4, 8}, const Bytes& request_data = {}, const Bytes& reply_data = {});
// Disconnects from the active side, waits until the passive side has seen it, and frees everything.
void EndPair(World& world, Case& c, Pair& pair);
void ReleaseEndpoints(World& world, const Pair& pair);

// Requests of every kind over a connected pair.
void DataScenario(World& world, const AdapterInfo& adapter, Case& c);
void WindowScenario(World& world, const AdapterInfo& adapter, Case& c);
void ErrorScenario(World& world, const AdapterInfo& adapter, Case& c);
void FlushScenario(World& world, const AdapterInfo& adapter, Case& c);
void SharedReceiveScenario(World& world, const AdapterInfo& adapter, Case& c);

// rping of rdmacm-utils, a program that does not use the broker, as the peer: first as server, then as
// client.
void RpingServerScenario(World& world, const AdapterInfo& adapter, Case& c);
void RpingClientScenario(World& world, const AdapterInfo& adapter, Case& c);

}  // namespace nd::vm
