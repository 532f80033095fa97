// SPDX-License-Identifier: Apache-2.0
#include "base/fd_lane.h"

#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/memfd.h"
#include "base/os/descriptor.h"
#include "base/os/socket.h"
#include "base/os/wait.h"

namespace nd {
namespace {

class FdLane : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeSeqpacketPair(&a_, &b_).ok()); }
  static std::span<const std::byte> Text(const char* text) {
    return std::as_bytes(std::span(text, std::strlen(text)));
  }
  // Grows with each descriptor that stays open.
  int LowestFreeNumber() const { return os::Duplicate(a_.get()).get(); }
  UniqueFd a_, b_;
  std::array<std::byte, 64> buffer_{};
};

// A caller that asks all the time finds each message and the hang-up.
TEST_F(FdLane, MayHaveMessageMissesNothingForLong) {
  const auto found = [&] {
    const Time deadline = Time(std::chrono::steady_clock::now()) + std::chrono::seconds(10);
    while (!os::MayHaveMessage(b_.get()) ||
           ReceiveWithFds(b_.get(), buffer_, false).code() == StatusCode::kDeviceBusy) {
      if (Time(std::chrono::steady_clock::now()) > deadline) return false;
    }
    return true;
  };
  for (int i = 0; i < 100; ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(SendWithFds(a_.get(), Text("one"), {}).ok());
    ASSERT_TRUE(found());
    for (int j = 0; j < i; ++j) os::MayHaveMessage(b_.get());
  }
  a_.reset();
  EXPECT_TRUE(found());
}

TEST_F(FdLane, DescriptorsArriveWithTheirMessage) {
  UniqueFd near, far;
  ASSERT_TRUE(os::MakeStreamPair(&near, &far, /*blocking=*/false));
  auto memory = CreateSealedMemfd("test", 4096);
  ASSERT_TRUE(memory.ok());
  const int fds[] = {far.get(), memory->get()};
  ASSERT_TRUE(SendWithFds(a_.get(), Text("two"), fds).ok());
  far.reset();  // The message keeps both alive.
  memory->reset();
  auto message = ReceiveWithFds(b_.get(), buffer_, false);
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  EXPECT_EQ(message->size, 3u);
  ASSERT_EQ(message->fds.size(), 2u);
  ASSERT_EQ(os::Send(message->fds[0].get(), "!", 1), 1);
  os::Watched wait[] = {{near.get()}};
  ASSERT_EQ(os::Wait(wait, std::chrono::seconds(10)), 1);
  char got = 0;
  ASSERT_EQ(os::Receive(near.get(), &got, 1), 1);
  EXPECT_EQ(got, '!');
  EXPECT_TRUE(CheckSealedMemfd(message->fds[1].get(), 4096).ok());
  message->fds.clear();
  ASSERT_EQ(os::Wait(wait, std::chrono::seconds(10)), 1);
  EXPECT_EQ(os::Receive(near.get(), &got, 1), 0);  // No other descriptor of it is left.
}

TEST_F(FdLane, MemoryArrivesInTheOtherDirection) {
  auto memory = CreateSealedMemfd("test", 4096);
  ASSERT_TRUE(memory.ok());
  const int fd = memory->get();
  ASSERT_TRUE(SendWithFds(b_.get(), Text("one"), {&fd, 1}).ok());
  memory->reset();
  const auto message = ReceiveWithFds(a_.get(), buffer_, false);
  ASSERT_TRUE(message.ok()) << message.status().ToString();
  ASSERT_EQ(message->fds.size(), 1u);
  EXPECT_TRUE(CheckSealedMemfd(message->fds[0].get(), 4096).ok());
}

TEST_F(FdLane, EmptyQueueAndHangUpAreDistinguished) {
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false).code(), StatusCode::kDeviceBusy);
  a_.reset();
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false).code(), StatusCode::kConnectionDisconnected);
  EXPECT_EQ(SendWithFds(b_.get(), Text("x"), {}).code(), StatusCode::kConnectionDisconnected);
}

TEST_F(FdLane, SendToAFullReceiverDoesNotBlock) {
  Status status;
  for (int i = 0; i < 100000 && status.ok(); ++i) status = SendWithFds(a_.get(), Text("x"), {});
  EXPECT_EQ(status.code(), StatusCode::kDeviceBusy);
  // Room again, and the messages are whole.
  auto message = ReceiveWithFds(b_.get(), buffer_, false);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->size, 1u);
}

TEST_F(FdLane, MessagesInOrderAreSentAsFarAsTheyFit) {
  const std::vector<std::byte> large(10000);
  std::vector<std::vector<std::byte>> bytes;
  for (int i = 0; i < 100; ++i) bytes.emplace_back(1 + static_cast<std::size_t>(i));
  bytes.resize(1000, large);
  const std::vector<std::span<const std::byte>> messages(bytes.begin(), bytes.end());
  Status why;
  const std::size_t sent = SendInOrder(a_.get(), messages, &why);
  EXPECT_EQ(why.code(), StatusCode::kDeviceBusy);
  ASSERT_GT(sent, 50u);
  ASSERT_LT(sent, messages.size());
  std::vector<std::byte> buffer(large.size());
  for (std::size_t i = 0; i < sent; ++i) {
    EXPECT_EQ(ReceiveWithFds(b_.get(), buffer, false)->size, bytes[i].size());
  }
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer, false).code(), StatusCode::kDeviceBusy);
  b_.reset();
  EXPECT_EQ(SendInOrder(a_.get(), messages, &why), 0u);
  EXPECT_EQ(why.code(), StatusCode::kConnectionDisconnected);
}

TEST_F(FdLane, MessagesAreReceivedTogetherInOrder) {
  std::array<std::array<std::byte, 4>, 3> memory{};
  std::vector<std::span<std::byte>> buffers(memory.begin(), memory.end());
  std::array<os::ReceivedMessage, 3> got;
  EXPECT_EQ(ReceiveInOrder(b_.get(), buffers, got), 0u);
  EXPECT_EQ(errno, EAGAIN);
  for (const char* text : {"1", "22", "too long", "4444"})
    ASSERT_TRUE(SendWithFds(a_.get(), Text(text), {}).ok());
  ASSERT_EQ(ReceiveInOrder(b_.get(), buffers, got), 3u);
  EXPECT_EQ(got[0].size, 1);
  EXPECT_EQ(got[1].size, 2);
  EXPECT_EQ(memory[1][0], std::byte{'2'});
  EXPECT_TRUE(got[2].too_long);
  EXPECT_FALSE(got[1].too_long || got[1].had_descriptors);
  ASSERT_GE(ReceiveInOrder(b_.get(), buffers, got), 1u);
  EXPECT_EQ(got[0].size, 4);
  a_.reset();
  ASSERT_GE(ReceiveInOrder(b_.get(), buffers, got), 1u);
  EXPECT_EQ(got[0].size, 0);
}

TEST_F(FdLane, MessagesSentBeforeAHangUpArrive) {
  ASSERT_TRUE(SendWithFds(a_.get(), Text("first"), {}).ok());
  ASSERT_TRUE(SendWithFds(a_.get(), Text("last"), {}).ok());
  a_.reset();
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false)->size, 5u);
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false)->size, 4u);
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, true).code(), StatusCode::kConnectionDisconnected);
}

TEST_F(FdLane, DatagramThatIsTooLongIsAnErrorAndLeaksNothing) {
  const auto memory = CreateSealedMemfd("test", 4096);
  ASSERT_TRUE(memory.ok());
  const int fds[] = {memory->get(), memory->get()};
  const std::array<std::byte, 65> longer{};
  const int before = LowestFreeNumber();
  ASSERT_TRUE(SendWithFds(a_.get(), longer, fds).ok());
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false).code(), StatusCode::kRemoteError);
  EXPECT_EQ(LowestFreeNumber(), before);
}

TEST_F(FdLane, MoreDescriptorsThanAllowedAreNotSent) {
  std::array<int, kMaxFdsPerMessage + 1> fds;
  fds.fill(a_.get());
  EXPECT_EQ(SendWithFds(a_.get(), Text("x"), fds).code(), StatusCode::kInvalidParameter);
}

}  // namespace
}  // namespace nd
