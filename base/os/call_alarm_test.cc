// SPDX-License-Identifier: Apache-2.0
// A connect() that waits for ever ends; calls that do not wait are not disturbed.
#include "base/os/call_alarm.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <string>

#include "base/unique_fd.h"

namespace nd::os {
namespace {

class CallAlarmTest : public ::testing::Test {
 protected:
  // Listens without room for a connection, so that the second connect() waits.
  CallAlarmTest() : listener_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    name_.sun_family = AF_UNIX;
    const std::string text = "nd-call-alarm-" + std::to_string(::getpid());
    text.copy(name_.sun_path + 1, text.size());
    EXPECT_EQ(::bind(listener_.get(), address(), sizeof name_), 0);
    EXPECT_EQ(::listen(listener_.get(), 0), 0);
  }
  const sockaddr* address() const { return reinterpret_cast<const sockaddr*>(&name_); }
  int Connect(int fd) { return ::connect(fd, address(), sizeof name_) == 0 ? 0 : errno; }

  sockaddr_un name_{};
  UniqueFd listener_;
};

TEST_F(CallAlarmTest, EndsACallThatWaits) {
  const UniqueFd first(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const UniqueFd second(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(Connect(first.get()), 0);
  for (const int milliseconds : {5, 1005}) {
    CallAlarm alarm{std::chrono::milliseconds(milliseconds)};
    alarm.Set();
    EXPECT_EQ(Connect(second.get()), EINTR);
    alarm.Clear();
  }
}

}  // namespace
}  // namespace nd::os
