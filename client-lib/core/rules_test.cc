// SPDX-License-Identifier: Apache-2.0
// Rules for the buffers of getters, pending closes, and finding a trusted broker.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <cstring>

#include "base/locate.h"
#include "base/memfd.h"
#include "base/os/ip_address.h"
#include "client-lib/core/buffer_rules.h"
#include "client-lib/core/lifetime.h"
#include "client-lib/core/locate.h"
#include "client-lib/core/mapped_counters.h"
#include "nd/connector.h"

namespace nd::client {
namespace {

const PrivateData kHello = AsPrivateData("hello");

struct Guarded {
  std::array<char, 16> bytes;
  Guarded() { bytes.fill('#'); }
  std::string text() const { return {bytes.data(), bytes.size()}; }
};

TEST(BufferRules, NdkAndNd2DifferOnNullAndShort) {
  std::size_t length = 0;
  EXPECT_EQ(CopyPrivateData(kHello, nullptr, &length, false), StatusCode::kBufferOverflow);
  EXPECT_EQ(length, 5u);
  length = 0;
  EXPECT_TRUE(CopyPrivateData(kHello, nullptr, &length, true).ok());
  EXPECT_EQ(length, 5u);
  length = 3;
  EXPECT_EQ(CopyPrivateData(kHello, nullptr, &length, true), StatusCode::kInvalidParameter);
  EXPECT_EQ(CopyPrivateData(kHello, nullptr, &length, false), StatusCode::kAccessViolation);
  for (bool ndk : {false, true}) {
    Guarded buffer;
    length = 3;
    EXPECT_EQ(CopyPrivateData(kHello, buffer.bytes.data(), &length, ndk),
              ndk ? StatusCode::kBufferTooSmall : StatusCode::kBufferOverflow);
    EXPECT_EQ(length, 5u);
    EXPECT_EQ(buffer.text(), "hel#############");
  }
}

TEST(BufferRules, ExactAndLargeBuffersKeepTheirRest) {
  for (std::size_t room : {5u, 16u}) {
    Guarded buffer;
    std::size_t length = room;
    EXPECT_TRUE(CopyPrivateData(kHello, buffer.bytes.data(), &length, false).ok());
    EXPECT_EQ(length, 5u);
    EXPECT_EQ(buffer.text(), "hello###########");
  }
  std::size_t length = 0;
  EXPECT_TRUE(CopyPrivateData({}, nullptr, &length, false).ok());
}

TEST(BufferRules, ShortAddressBuffersStayUntouched) {
  const Address address = Address::Parse("10.1.2.3:7000").value();
  std::size_t length = 0;
  for (const bool ndk : {false, true}) {
    const StatusCode small = ndk ? StatusCode::kBufferTooSmall : StatusCode::kBufferOverflow;
    Guarded buffer;
    length = sizeof(os::SocketAddress4) - 1;
    EXPECT_EQ(CopyAddress(address, buffer.bytes.data(), &length, ndk), small);
    EXPECT_EQ(length, sizeof(os::SocketAddress4));
    EXPECT_EQ(buffer.text(), "################");
    length = 0;
    EXPECT_EQ(CopyAddress(address, nullptr, &length, ndk), small);
  }
  os::SocketAddress6 large;
  length = sizeof(large);
  EXPECT_TRUE(CopyAddress(address, &large, &length, false).ok());
  EXPECT_EQ(length, sizeof(os::SocketAddress4));
  EXPECT_EQ(Address::FromSockaddr(reinterpret_cast<sockaddr*>(&large), length), address);
}

TEST(Lifetime, CloseWaitsForTheLastSuccessor) {
  Lifetime lifetime;
  int finished = 0;
  ASSERT_TRUE(lifetime.AddSuccessor());
  ASSERT_TRUE(lifetime.AddSuccessor());
  EXPECT_TRUE(lifetime.Close([&] { ++finished; }));
  EXPECT_FALSE(lifetime.AddSuccessor());
  EXPECT_FALSE(lifetime.Close([&] { finished += 100; }));
  lifetime.RemoveSuccessor();
  EXPECT_EQ(finished, 0);
  lifetime.RemoveSuccessor();
  EXPECT_EQ(finished, 1);
}

TEST(Lifetime, CloseWithoutSuccessorsFinishesAtOnce) {
  Lifetime lifetime;
  int finished = 0;
  ASSERT_TRUE(lifetime.AddSuccessor());
  lifetime.RemoveSuccessor();
  EXPECT_TRUE(lifetime.Close([&] { ++finished; }));
  EXPECT_EQ(finished, 1);
}

TEST(Locate, OptionComesFirstAndItsOwnerIsTrusted) {
  const Location location = LocateBroker("/some/where");
  EXPECT_EQ(location.directory, "/some/where");
  EXPECT_TRUE(Trusted(location, 77, 1000, 77));
  EXPECT_FALSE(Trusted(location, 78, 1000, 77));
  EXPECT_TRUE(Trusted(location, 0, 1000, 77));
  EXPECT_TRUE(Trusted(location, 1000, 1000, 77));
  EXPECT_FALSE(Trusted({"/tmp/ndbroker-1000", false}, 77, 1000, 77));
}

TEST(Locate, NamesThePathThatWasTried) {
  auto socket = ConnectToBroker({"/nonexistent/ndbroker", true}, "lane.sock", os::SocketKind::kMessages);
  ASSERT_FALSE(socket.ok());
  EXPECT_EQ(socket.code(), StatusCode::kDeviceNotReady);
  EXPECT_EQ(socket.status().detail(), Detail::kBrokerUnreachable);
  EXPECT_NE(socket.status().message().find(ClientSocketPath("/nonexistent/ndbroker", "lane.sock")),
            std::string::npos);
  EXPECT_EQ(ConnectToBroker({std::string(200, 'x'), true}, "lane.sock", os::SocketKind::kStream).code(),
            StatusCode::kInvalidParameter);
}

TEST(MappedCounters, GivesSlotsOfKnownPagesOnly) {
  MappedCounters pages;
  provider::CountersPageRecord record;
  record.first_slot = 256;
  record.slot_count = 256;
  EXPECT_TRUE(
      pages.Add(record, CreateSealedMemfd("counters", 256 * sizeof(provider::QpCounters)).value()).ok());
  EXPECT_EQ(pages.Slot(255), nullptr);
  EXPECT_EQ(pages.Slot(512), nullptr);
  ASSERT_NE(pages.Slot(256), nullptr);
  EXPECT_EQ(pages.Slot(511), pages.Slot(256) + 255);
  pages.Slot(300)->tx_bytes = 7;
  EXPECT_EQ(pages.Slot(300)->tx_bytes, 0u) << "what an earlier queue pair counted";
  EXPECT_EQ(pages.Add(record, CreateSealedMemfd("again", 256 * sizeof(provider::QpCounters)).value()),
            StatusCode::kRemoteError);
}

TEST(MappedCounters, RefusesMemoryThatIsTooSmallOrNone) {
  MappedCounters pages;
  provider::CountersPageRecord record;
  record.slot_count = 256;
  EXPECT_FALSE(pages.Add(record, CreateSealedMemfd("small", 4096).value()).ok());
  EXPECT_FALSE(pages.Add(record, UniqueFd()).ok());
  record.slot_count = 0;
  EXPECT_FALSE(pages.Add(record, CreateSealedMemfd("zero", 4096).value()).ok());
  record.slot_count = 0xFFFFFFFF;
  EXPECT_FALSE(pages.Add(record, CreateSealedMemfd("huge", 4096).value()).ok());
}

}  // namespace
}  // namespace nd::client
