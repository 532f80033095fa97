// SPDX-License-Identifier: Apache-2.0
// The lane as a Unix socket: what only a peer that uses the socket directly can do.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include "base/fd_lane.h"
#include "base/lane_sender.h"

namespace nd {
namespace {

class FdLaneSocket : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(MakeSeqpacketPair(&a_, &b_).ok()); }
  static std::span<const std::byte> Text(const char* text) {
    return std::as_bytes(std::span(text, std::strlen(text)));
  }
  static int CountOpenFds() {
    int count = 0;
    for (int fd = 0; fd < 1024; ++fd) count += fcntl(fd, F_GETFD) >= 0;
    return count;
  }
  UniqueFd a_, b_;
  std::array<std::byte, 64> buffer_{};
};

TEST_F(FdLaneSocket, DescriptorsArriveCloseOnExec) {
  const int fds[] = {STDERR_FILENO};
  ASSERT_TRUE(SendWithFds(a_.get(), Text("one"), fds).ok());
  auto message = ReceiveWithFds(b_.get(), buffer_, false);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->fds.size(), 1u);
  EXPECT_NE(fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
}

// Holds also for a blocking socket: a client that shares the description can clear O_NONBLOCK.
TEST_F(FdLaneSocket, SendToAFullReceiverDoesNotBlock) {
  for (const bool blocking : {false, true}) {
    const int flags = fcntl(a_.get(), F_GETFL);
    ASSERT_EQ(fcntl(a_.get(), F_SETFL, blocking ? flags & ~O_NONBLOCK : flags), 0);
    alarm(60);  // Ends the program if a call blocks.
    Status status;
    for (int i = 0; i < 100000 && status.ok(); ++i) status = SendWithFds(a_.get(), Text("x"), {});
    EXPECT_EQ(status.code(), StatusCode::kDeviceBusy);
    alarm(0);
  }
}

TEST_F(FdLaneSocket, TheKernelTellsTheSender) {
  const int fds[] = {STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO,
                     STDERR_FILENO, STDERR_FILENO, STDERR_FILENO, STDERR_FILENO};
  std::uint32_t process = 1;
  ASSERT_TRUE(SendInMyName(a_.get(), Text("one"), fds).ok());
  auto message = ReceiveWithSender(b_.get(), buffer_, &process);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->fds.size(), kMaxFdsPerMessage);
  EXPECT_EQ(process, static_cast<std::uint32_t>(getpid()));
  ASSERT_TRUE(SendWithFds(a_.get(), Text("two"), {}).ok());
  ASSERT_TRUE(ReceiveWithSender(b_.get(), buffer_, &process).ok());
  EXPECT_EQ(process, 0u) << "in nobody's name";
  const pid_t child = fork();
  if (child == 0) _exit(SendInMyName(a_.get(), Text("three"), {}).ok() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ASSERT_TRUE(ReceiveWithSender(b_.get(), buffer_, &process).ok());
  EXPECT_EQ(process, static_cast<std::uint32_t>(child));
  // A receiver that does not ask gets the message, too.
  ASSERT_TRUE(SendInMyName(a_.get(), Text("four"), fds).ok());
  message = ReceiveWithFds(b_.get(), buffer_, false);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->fds.size(), kMaxFdsPerMessage);
  EXPECT_EQ(ReceiveWithSender(b_.get(), buffer_, &process).status().code(), StatusCode::kDeviceBusy);
}

TEST_F(FdLaneSocket, TooManyDescriptorsAreAnErrorAndLeakNothing) {
  // Nine descriptors, sent past the limit of SendWithFds.
  std::array<int, 9> fds;
  fds.fill(STDERR_FILENO);
  iovec io{buffer_.data(), 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fds)] = {};
  msghdr header{};
  header.msg_iov = &io;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  cmsghdr* cmsg = CMSG_FIRSTHDR(&header);
  cmsg->cmsg_level = SOL_SOCKET;
  cmsg->cmsg_type = SCM_RIGHTS;
  cmsg->cmsg_len = CMSG_LEN(sizeof fds);
  std::memcpy(CMSG_DATA(cmsg), fds.data(), sizeof fds);
  ASSERT_EQ(sendmsg(a_.get(), &header, 0), 1);
  const int before = CountOpenFds();
  EXPECT_EQ(ReceiveWithFds(b_.get(), buffer_, false).code(), StatusCode::kRemoteError);
  EXPECT_EQ(CountOpenFds(), before);
  EXPECT_EQ(SendWithFds(a_.get(), Text("x"), fds).code(), StatusCode::kInvalidParameter);
}

}  // namespace
}  // namespace nd
