// SPDX-License-Identifier: Apache-2.0
// Connecting a UDP socket makes the kernel look up the route; the socket then has the source address.
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "provider/soft/cm/route.h"
#include "provider/soft/cm/tcp_socket.h"

namespace nd::provider::soft {
namespace {

// For changes that the kernel does not report.
constexpr Duration kLongestUse = std::chrono::seconds(1);

using Call = int (*)(int, const sockaddr*, socklen_t);

bool Invoke(Call call, int fd, const Address& address) {
  sockaddr_storage storage{};
  const std::size_t length = address.ToSockaddr(&storage);
  return call(fd, reinterpret_cast<const sockaddr*>(&storage), static_cast<socklen_t>(length)) == 0;
}

UniqueFd MakeSocket(Address::Family family) {
  return UniqueFd(socket(family == Address::Family::kIpv6 ? AF_INET6 : AF_INET,
                         SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// Returns no value, with errno, when there is no route.
std::optional<Address> SourceOf(int fd, const Address& remote) {
  // The route does not depend on the port, but connect() refuses port 0.
  if (!Invoke(connect, fd, remote.WithPort(9))) return std::nullopt;
  const Address found = LocalAddressOf(fd);
  if (!found.well_formed()) return std::nullopt;
  return found.WithPort(0);
}

// The same from a socket that is bound to `local`.
std::optional<Address> SourceFrom(const Address& local, const Address& remote) {
  const UniqueFd socket = MakeSocket(remote.family());
  if (!socket || !Invoke(bind, socket.get(), local.WithPort(0))) return std::nullopt;
  return SourceOf(socket.get(), remote);
}

}  // namespace

// The answers since the last change, and the socket in which the kernel queues its reports of changes.
class RouteFinder::Kept {
 public:
  struct Answer {
    std::optional<Address> source;
    int error = 0;
  };

  // False: the kernel would not report every kind of change.
  bool Open() {
    reports_.reset(socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE));
    if (!reports_) return false;
    sockaddr_nl name{};
    name.nl_family = AF_NETLINK;
    if (bind(reports_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) != 0) return false;
    return std::ranges::all_of(
        std::array{RTNLGRP_LINK, RTNLGRP_NEXTHOP, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV4_RULE,
                   RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV6_RULE,
                   RTNLGRP_IPV6_NETCONF, RTNLGRP_IPV6_IFINFO},
        [this](int group) {
          return setsockopt(reports_.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group) == 0;
        });
  }

  // Forgets the answers if something has changed. A change in the moment of the last call waits for the next.
  void LookForChanges(std::uint64_t moment) {
    if (looked_ == moment) return;
    looked_ = moment;
    const Time now = std::chrono::steady_clock::now();
    if (HasReport() || now >= use_until_) Forget();
    if (answers_.empty()) use_until_ = now + kLongestUse;
  }

  // Returns the answer for `remote` from a socket that is bound to `local`, if it is well-formed. `ask` gets
  // the answer from the kernel when none is kept; a change from LookForChanges() on is found by the next one.
  template <typename Ask>
  Answer Find(const Address& remote, const Address& local, const Ask& ask) {
    const std::pair key(remote.WithPort(0), local);
    if (latest_ != answers_.end() && latest_->first == key) return latest_->second;
    latest_ = answers_.find(key);
    if (latest_ != answers_.end()) return latest_->second;
    if (answers_.size() >= kMost) Forget();
    const std::optional<Address> source = ask();
    latest_ = answers_.insert_or_assign(key, Answer{source, errno}).first;
    return latest_->second;
  }

 private:
  static constexpr std::size_t kMost = 1024;
  static constexpr int kMostReports = 256;  // Of one call. Further ones wait for the next, which finds them.

  void Forget() {
    answers_.clear();
    latest_ = answers_.end();
  }

  bool HasReport() {
    char scrap;
    for (int reports = 0; reports < kMostReports; ++reports) {
      // The rest of the report is dropped. ENOBUFS: reports were lost.
      if (recv(reports_.get(), &scrap, sizeof scrap, MSG_DONTWAIT) < 0 && errno == EAGAIN) return reports > 0;
    }
    return true;
  }

  UniqueFd reports_;
  std::optional<std::uint64_t> looked_;  // In that moment.
  Time use_until_{};
  std::map<std::pair<Address, Address>, Answer> answers_;
  decltype(answers_)::iterator latest_ = answers_.end();  // The answer that was given last, if it is kept.
};

RouteFinder::RouteFinder()
    : kept_(std::make_unique<Kept>()),
      v4_(MakeSocket(Address::Family::kIpv4)),
      v6_(MakeSocket(Address::Family::kIpv6)) {
  if (!kept_->Open()) kept_.reset();
}
RouteFinder::~RouteFinder() = default;

std::optional<Address> RouteFinder::PreferredSource(const Address& remote) {
  UniqueFd& socket = remote.family() == Address::Family::kIpv6 ? v6_ : v4_;
  if (!socket) socket = MakeSocket(remote.family());
  if (!socket) return std::nullopt;
  const std::optional<Address> source = SourceOf(socket.get(), remote);
  const int error = errno;
  // Forgets the source address, too, which the next lookup would keep.
  const sockaddr none{.sa_family = AF_UNSPEC, .sa_data = {}};
  if (connect(socket.get(), &none, sizeof none) != 0) socket.reset();
  errno = error;
  return source;
}

Result<Address> RouteFinder::Find(const Adapter& adapter, const Address& remote, std::uint64_t moment) {
  if (!remote.well_formed()) return Status{StatusCode::kInvalidAddress, "the remote address is malformed"};
  if (remote.unspecified() || remote.multicast()) {
    return Status{StatusCode::kNetworkUnreachable, remote.IpToString() + " names no single host"};
  }
  if (kept_) kept_->LookForChanges(moment);
  const auto find = [&](const Address& local, const auto& ask) -> Kept::Answer {
    if (kept_) return kept_->Find(remote, local, ask);
    const std::optional<Address> source = ask();
    return {source, errno};
  };
  const auto [preferred, error] = find({}, [&] { return PreferredSource(remote); });
  if (preferred && adapter.Has(*preferred)) return *preferred;
  for (const Address& local : adapter.addresses) {
    if (local.family() != remote.family()) continue;
    if (find(local, [&] { return SourceFrom(local, remote); }).source) return local;
  }
  return Status{StatusCode::kNetworkUnreachable,
                "adapter " + adapter.options.name + " has no route to " + remote.IpToString(),
                Detail::kTransport, preferred ? 0 : error};
}

}  // namespace nd::provider::soft
