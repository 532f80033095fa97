// SPDX-License-Identifier: Apache-2.0
// Counts the connections that a listening socket refused before they had a session, and failures of accept().
//
// Plain values of one thread. The names are labels of metrics (docs/operations.md).
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <string>

namespace nd::ops {

enum class Refusal : std::uint8_t {
  kCredentials,       // The kernel did not identify the peer.
  kUserLimit,         // Its user has the maximum of open connections.
  kCrowded,           // Too many connections wait for their Hello.
  kDescriptors,       // No descriptor was left for it.
  kNoHello,           // It sent no Hello in time.
  kBadHello,          // Its Hello is malformed or of another version.
  kBadToken,          // Its token belongs to another process.
  kForeignNamespace,  // It is in another pid, network or user namespace than the broker.
  kFlood,             // It caused too much work (service/http2_guard.h).
};
inline constexpr std::size_t kRefusals = 9;
constexpr const char* Name(Refusal refusal) {
  constexpr std::array<const char*, kRefusals> kNames = {"no credentials", "user limit",        "crowded",
                                                         "no descriptors", "no hello",          "bad hello",
                                                         "bad token",      "foreign namespace", "flood"};
  return kNames[static_cast<std::size_t>(refusal)];
}

// The classes of errors of accept().
enum class AcceptError : std::uint8_t { kDescriptors, kMemory, kOther };
inline constexpr std::size_t kAcceptErrors = 3;
constexpr const char* Name(AcceptError error) {
  constexpr std::array<const char*, kAcceptErrors> kNames = {"no descriptors", "no memory", "other"};
  return kNames[static_cast<std::size_t>(error)];
}
constexpr AcceptError ClassOf(int error) {
  if (error == EMFILE || error == ENFILE) return AcceptError::kDescriptors;
  return error == ENOMEM || error == ENOBUFS ? AcceptError::kMemory : AcceptError::kOther;
}

struct Door {
  std::array<std::uint64_t, kRefusals> refused{};
  std::array<std::uint64_t, kAcceptErrors> errors{};
  void Refuse(Refusal why) { ++refused[static_cast<std::size_t>(why)]; }
  void Fail(int error) { ++errors[static_cast<std::size_t>(ClassOf(error))]; }
};
// By the name of the socket. The address of a Door is stable.
using Doors = std::map<std::string, Door, std::less<>>;

}  // namespace nd::ops
