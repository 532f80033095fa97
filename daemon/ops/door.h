// SPDX-License-Identifier: Apache-2.0
// What a listening socket has turned away before it was anybody's session, and why it could not take more.
//
// Counts only; plain values of one thread. The words are labels of metrics (docs/operations.md).
#pragma once

#include <array>
#include <cerrno>
#include <cstdint>
#include <map>
#include <string>

namespace nd::ops {

enum class Refusal : std::uint8_t {
  kCredentials,  // The kernel did not say who it is.
  kUserLimit,    // Its user has as many open as one may have.
  kCrowded,      // Too many wait to say who they are.
  kDescriptors,  // None left to serve it with.
  kNoHello,      // It said nothing in time.
  kBadHello,     // What it said makes no sense, or is of another version.
  kBadToken,     // It is not the process that it says.
};
inline constexpr std::size_t kRefusals = 7;
constexpr const char* Name(Refusal refusal) {
  constexpr std::array<const char*, kRefusals> kNames = {
      "no credentials", "user limit", "crowded", "no descriptors", "no hello", "bad hello", "bad token"};
  return kNames[static_cast<std::size_t>(refusal)];
}

// Classes of what accept() fails with.
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
// By the socket's name. A Door stays where it is.
using Doors = std::map<std::string, Door, std::less<>>;

}  // namespace nd::ops
