// SPDX-License-Identifier: Apache-2.0
// Windows has one network for all processes of a host, so that no process makes sockets for another one: no
// socket is fit to be given.
#include "base/os/given_socket.h"

#include <cerrno>

namespace nd::os {
namespace {

Status NoNamespaces() {
  return {StatusCode::kNotSupported, "this system has no network namespaces"};
}

}  // namespace

UniqueFd MakeGiven(GivenKind) {
  errno = EAFNOSUPPORT;
  return {};
}

GivenKind TcpKindOf(Address::Family family) {
  if (family == Address::Family::kIpv4) return GivenKind::kTcp4;
  return family == Address::Family::kIpv6 ? GivenKind::kTcp6 : GivenKind::kOther;
}

GivenFacts FactsOf(int) {
  return {};
}

std::string WhyUnfit(const GivenFacts&, std::uint64_t) {
  return "a socket was given, and this system has no network namespaces";
}

std::uint64_t NetworkOf(int) {
  return 0;
}

Status ListenOnGiven(int, const Address&) {
  return NoNamespaces();
}

Status BindGiven(int, const Address&) {
  return NoNamespaces();
}

}  // namespace nd::os
