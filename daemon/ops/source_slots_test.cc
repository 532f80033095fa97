// SPDX-License-Identifier: Apache-2.0
// The choice of the connection that loses its slot when every slot is taken.
#include "daemon/ops/source_slots.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace nd::ops {
namespace {

TEST(SourceSlots, OldestSilentConnectionOfTheLargestSourceMakesRoom) {
  SourceSlots slots(4, 4);
  EXPECT_TRUE(slots.Enter(1, "quiet").admitted);
  for (SourceSlots::Id id : {2, 3, 4}) EXPECT_FALSE(slots.Enter(id, "crowd").evicted);
  EXPECT_EQ(slots.Enter(5, "crowd").evicted, 2u) << "not the oldest of all: the crowd pays for itself";
  EXPECT_EQ(slots.Enter(6, "third").evicted, 3u);
  EXPECT_EQ(slots.Enter(7, "third").evicted, 4u) << "of equally large sources the one that waits longest";
  EXPECT_EQ(slots.size(), 4u);
}

TEST(SourceSlots, ServedConnectionsStayAndSlowReadersGoLast) {
  SourceSlots slots(3, 3);
  for (SourceSlots::Id id : {1, 2, 3}) slots.Enter(id, "a");
  EXPECT_TRUE(slots.Serve(1));
  EXPECT_TRUE(slots.Serve(2));
  slots.AwaitReader(1);
  EXPECT_EQ(slots.Enter(4, "a").evicted, 3u) << "silent before slow";
  EXPECT_TRUE(slots.Serve(4));
  EXPECT_EQ(slots.Enter(5, "a").evicted, 1u) << "the reader";
  slots.Leave(5);
  slots.Enter(6, "b");
  EXPECT_TRUE(slots.Serve(6));
  const SourceSlots::Entry full = slots.Enter(7, "c");
  EXPECT_FALSE(full.admitted);
  EXPECT_FALSE(full.evicted);
  EXPECT_EQ(slots.size(), 3u);
}

TEST(SourceSlots, OneSourceIsServedInThreeQuartersAtMost) {
  SourceSlots slots(8, 4);
  for (SourceSlots::Id id = 1; id <= 6; ++id) slots.Enter(id, id <= 4 ? "greedy" : "other");
  for (SourceSlots::Id id : {1, 2, 3}) EXPECT_TRUE(slots.Serve(id));
  EXPECT_FALSE(slots.Serve(4));
  EXPECT_TRUE(slots.Serve(5));
  EXPECT_FALSE(slots.Serve(6)) << "all are taken";
  slots.Leave(1);
  EXPECT_TRUE(slots.Serve(6));
}

TEST(SourceSlots, SourceIsAUserOrAnAddress) {
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  const UniqueFd one(ends[0]), other(ends[1]);
  EXPECT_EQ(SourceOf(one.get()), "uid " + std::to_string(::geteuid()));
  for (const bool v6 : {false, true}) {
    sockaddr_storage storage{};
    storage.ss_family = v6 ? AF_INET6 : AF_INET;
    socklen_t length = v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
    if (v6) {
      reinterpret_cast<sockaddr_in6*>(&storage)->sin6_addr = in6addr_loopback;
    } else {
      reinterpret_cast<sockaddr_in*>(&storage)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    }
    auto* address = reinterpret_cast<sockaddr*>(&storage);
    const UniqueFd listener(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (::bind(listener.get(), address, length) != 0) continue;  // A host without IPv6.
    ASSERT_EQ(::listen(listener.get(), 1), 0);
    ASSERT_EQ(::getsockname(listener.get(), address, &length), 0);
    const UniqueFd client(::socket(storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), address, length), 0);
    EXPECT_EQ(SourceOf(client.get()), v6 ? "::/64" : "127.0.0.1");
  }
}

}  // namespace
}  // namespace nd::ops
