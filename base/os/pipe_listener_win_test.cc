// SPDX-License-Identifier: Apache-2.0
#include "base/os/pipe_listener_win.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/os/accept.h"
#include "base/os/self.h"
#include "base/os/socket.h"
#include "base/os/wait.h"

namespace nd::os {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

class PipeListenerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = PipeListener::Make(PipeName(path_));
    ASSERT_TRUE(made);
    listener_ = UniqueFd(PutObject(std::move(made)));
  }
  bool ClientWaits(Duration patience) const {
    Watched wait[] = {{listener_.get()}};
    return Wait(wait, patience) == 1;
  }
  UniqueFd Connect() const { return ConnectLocal(path_, SocketKind::kMessages, seconds(20)); }

  const std::string path_ = "listener-test-" + std::to_string(ProcessNumber()) + ".sock";
  UniqueFd listener_;
};

TEST_F(PipeListenerTest, ClientIsAcceptedWithItsUserAndItsProcess) {
  EXPECT_FALSE(ClientWaits(milliseconds(10)));
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kNone);
  const UniqueFd client = Connect();
  ASSERT_TRUE(client);
  ASSERT_TRUE(ClientWaits(seconds(20)));
  const Accepted accepted = Accept(listener_.get());
  ASSERT_EQ(accepted.result, Accepted::Result::kConnection);
  EXPECT_EQ(KindOf(accepted.fd.get()), SocketKind::kMessages);
  EXPECT_EQ(PeerUser(accepted.fd.get()), UserNumber());
  EXPECT_EQ(::GetProcessId(FindAs<PipeObject>(accepted.fd.get())->peer()), ProcessNumber());
  EXPECT_FALSE(ClientWaits(milliseconds(10)));
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kNone);
}

TEST_F(PipeListenerTest, QuietPipeIsKnownToBeQuietWithoutACall) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(ClientWaits(seconds(20)));
  const Accepted accepted = Accept(listener_.get());
  EXPECT_TRUE(MayHaveMessage(client.get()));
  int calls = 0;
  for (int i = 0; i < 640; ++i) calls += MayHaveMessage(client.get()) ? 1 : 0;
  EXPECT_LE(calls, 10);
}

TEST_F(PipeListenerTest, ClientLearnsTheOwnerOfThePipe) {
  const UniqueFd client = Connect();
  const std::optional<std::uint32_t> owner = PeerUser(client.get());
  // What an administrator makes belongs to all administrators, who count as the system.
  EXPECT_TRUE(owner == UserNumber() || owner == 0u);
}

// The system decides by this list. Wine keeps it and lets every user in.
TEST_F(PipeListenerTest, PipeHasTheAccessListOfItsClients) {
  for (const auto clients : {PipeListener::Clients::kOwner, PipeListener::Clients::kEveryone}) {
    const bool everyone = clients == PipeListener::Clients::kEveryone;
    const std::wstring name = PipeName((everyone ? "everyone-" : "owner-") + path_);
    const auto made = PipeListener::Make(name, clients);
    ASSERT_TRUE(made);
    const Handle pipe(::CreateFileW(name.c_str(), kClientOfPipe, 0, nullptr, OPEN_EXISTING, 0, nullptr));
    ASSERT_TRUE(pipe);
    FileAccess access;
    ASSERT_TRUE(AccessOf(pipe.get(), &access));
    EXPECT_TRUE(access.ours);
    EXPECT_EQ(access.others_read, everyone);
    EXPECT_EQ(access.others_write, everyone);
  }
}

TEST_F(PipeListenerTest, ShutDownEndsAWaitAndIsSeenByThePeer) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(ClientWaits(seconds(20)));
  const Accepted accepted = Accept(listener_.get());
  std::thread reader([&] {
    std::byte buffer[16];
    EXPECT_EQ(ReceiveWithFds(client.get(), buffer, /*blocking=*/true).code(),
              StatusCode::kConnectionDisconnected);
  });
  std::this_thread::sleep_for(milliseconds(50));
  ShutDown(client.get(), Direction::kBoth);
  reader.join();
  EXPECT_EQ(Send(client.get(), "x", 1), -1);
  Watched wait[] = {{accepted.fd.get()}};
  EXPECT_EQ(Wait(wait, seconds(20)), 1);
  std::byte buffer[16];
  EXPECT_EQ(ReceiveWithFds(accepted.fd.get(), buffer, false).code(), StatusCode::kConnectionDisconnected);
}

TEST_F(PipeListenerTest, SharedMemoryCrossesTheAcceptedLane) {
  const UniqueFd client = Connect();
  ASSERT_TRUE(ClientWaits(seconds(20)));
  const Accepted accepted = Accept(listener_.get());
  const UniqueFd memory = CreateSealedMemfd("lane", 4096).value();
  const int given[] = {memory.get()};
  ASSERT_TRUE(SendWithFds(accepted.fd.get(), std::as_bytes(std::span("take", 4)), given).ok());
  std::byte buffer[16];
  auto got = ReceiveWithFds(client.get(), buffer, /*blocking=*/true);
  ASSERT_TRUE(got.ok());
  ASSERT_EQ(got->fds.size(), 1u);
  const Mapping here = Mapping::Map(memory.get(), 4096, true).value();
  const Mapping there = Mapping::Map(got->fds[0].get(), 4096, true).value();
  std::memcpy(there.data(), "shared", 7);
  EXPECT_STREQ(reinterpret_cast<const char*>(here.data()), "shared");
}

TEST_F(PipeListenerTest, ClientsWaitForTheirTurn) {
  constexpr int kClients = 5;
  std::thread clients[kClients];
  for (std::thread& each : clients) {
    each = std::thread([&] {
      const UniqueFd client = Connect();
      ASSERT_TRUE(client);
      EXPECT_EQ(Send(client.get(), "x", 1), 1);
      std::byte buffer[16];
      EXPECT_TRUE(ReceiveWithFds(client.get(), buffer, /*blocking=*/true).ok());
    });
  }
  for (int i = 0; i < kClients;) {
    ASSERT_TRUE(ClientWaits(seconds(20)));
    const Accepted accepted = Accept(listener_.get());
    if (accepted.result != Accepted::Result::kConnection) continue;
    std::byte buffer[16];
    EXPECT_TRUE(ReceiveWithFds(accepted.fd.get(), buffer, /*blocking=*/true).ok());
    EXPECT_EQ(Send(accepted.fd.get(), "y", 1), 1);
    Watched wait[] = {{accepted.fd.get()}};
    EXPECT_EQ(Wait(wait, seconds(20)), 1);  // The client has read it and closed its end.
    ++i;
  }
  for (std::thread& each : clients) each.join();
}

TEST_F(PipeListenerTest, ClientThatHasGoneIsSkipped) {
  Connect().reset();
  ASSERT_TRUE(ClientWaits(seconds(20)));
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kNone);
  const UniqueFd client = Connect();
  ASSERT_TRUE(ClientWaits(seconds(20)));
  EXPECT_EQ(Accept(listener_.get()).result, Accepted::Result::kConnection);
}

}  // namespace
}  // namespace nd::os
