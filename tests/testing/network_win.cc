// SPDX-License-Identifier: Apache-2.0
// Windows has one network, in whose way no program can stand. tests/windows/run.sh starts the suite in a
// network namespace of its own and says so: no other program has ports there, and loopback has fd00::1 to
// fd00::9.
#include "tests/testing/network.h"

#include <cstdlib>

namespace nd::testing {

constexpr char kOneNetwork[] = "Windows has one network";

bool HasNetworkNamespaces() {
  return false;
}
bool InPrivateNetwork() {
  static const bool told = std::getenv("NDBROKER_TEST_PRIVATE_NETWORK") != nullptr;
  return told;
}
std::string EnterPrivateNetwork() {
  return InPrivateNetwork() ? "" : kOneNetwork;
}
bool CanBeAnotherUser() {
  return false;
}
void AdoptNetwork() {}

std::string Ip(const std::string& arguments, int /*ns*/) {
  return "ip " + arguments + ": " + kOneNetwork;
}

Namespace::Namespace() = default;

Wire::Wire(const Namespace&, const std::string&, const Namespace&, const std::string&)
    : error_(kOneNetwork) {}
Wire::Wire(const std::string&, const std::string&) : error_(kOneNetwork) {}
Wire::~Wire() = default;

void Wire::SetFilter(std::function<bool(const Frame&)>) {}

}  // namespace nd::testing
