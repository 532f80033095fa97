// SPDX-License-Identifier: Apache-2.0
// The namespaces of a peer, as the kernel names them.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <thread>

#include "daemon/ops/process.h"
#include "daemon/service/peer.h"

namespace nd::service {
namespace {

// The accepted socket names the namespace of the client, without any permission over the client.
TEST(PeerTest, ND_232_NetworkNamespaceOfTheClient) {
  if (OwnNetwork() == 0) GTEST_SKIP() << "this kernel does not name network namespaces";
  const std::string path = ::testing::TempDir() + "nd_peer_" + std::to_string(::getpid());
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ASSERT_LT(path.size(), sizeof address.sun_path);
  std::memcpy(address.sun_path, path.data(), path.size());
  const auto* name = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd listener(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  ASSERT_EQ(::bind(listener.get(), name, sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 2), 0);
  bool allowed = true;
  for (const bool elsewhere : {false, true}) {
    UniqueFd client;
    // unshare() affects the calling thread only, and that thread ends before anything else runs.
    std::thread([&] {
      if (elsewhere) allowed = ::unshare(CLONE_NEWNET) == 0;
      client.reset(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
      EXPECT_EQ(::connect(client.get(), name, sizeof address), 0);
    }).join();
    const UniqueFd accepted(::accept(listener.get(), nullptr, nullptr));
    if (!allowed) break;
    EXPECT_NE(PeerOf(accepted.get())->network, 0u);
    EXPECT_EQ(PeerOf(accepted.get())->network == OwnNetwork(), !elsewhere);
  }
  ::unlink(path.c_str());
  if (!allowed) GTEST_SKIP() << "network namespaces are not allowed here";
}

// The first call lacks a descriptor. The death test is a process of its own, in which nothing asked before.
TEST(PeerDeathTest, ShortageAtTheFirstCallDoesNotMakeLaterCallersForeign) {
  const UniqueFd any(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  std::uint64_t network = 0;
  socklen_t length = sizeof network;
  constexpr int kNetworkCookie = 71;  // SO_NETNS_COOKIE
  if (::getsockopt(any.get(), SOL_SOCKET, kNetworkCookie, &network, &length) != 0)
    GTEST_SKIP() << "this kernel does not name network namespaces";
  Peer myself;
  myself.pid = static_cast<std::uint32_t>(::getpid());
  myself.network = network;
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        rlimit before{};
        ::getrlimit(RLIMIT_NOFILE, &before);
        rlimit none = before;
        none.rlim_cur = 0;
        ::setrlimit(RLIMIT_NOFILE, &none);
        const bool unknown = ForeignNamespacesOf(myself, -1).any();
        ::setrlimit(RLIMIT_NOFILE, &before);
        std::_Exit(unknown && !ForeignNamespacesOf(myself, -1).any() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace nd::service
