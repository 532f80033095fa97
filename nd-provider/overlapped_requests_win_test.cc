// SPDX-License-Identifier: Apache-2.0
// What a client sees of its OVERLAPPED: by the event, by a completion port, by the result of the provider.
#include "nd-provider/overlapped_requests_win.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>
#include <vector>

#include "nd-provider/wake_sockets_win.h"

namespace nd::spi {
namespace {

using enum StatusCode;
constexpr DWORD kPatience = 30000;

class OverlappedRequestsTest : public ::testing::Test {
 protected:
  struct Packet {
    BOOL success = FALSE;
    OVERLAPPED* overlapped = nullptr;
  };
  Packet Next(DWORD milliseconds = kPatience) {
    Packet packet;
    DWORD bytes = 0;
    ULONG_PTR key = 0;
    packet.success = ::GetQueuedCompletionStatus(port.get(), &bytes, &key, &packet.overlapped, milliseconds);
    return packet;
  }
  void BindPort() {
    port = os::Handle(::CreateIoCompletionPort(file.get(), nullptr, 1, 0));
    ASSERT_TRUE(port);
  }
  OverlappedRequests::Id Pending(OVERLAPPED* overlapped) {
    OverlappedRequests::Id id = 0;
    EXPECT_EQ(requests->Begin(overlapped, &id), kPending);
    return id;
  }

  os::Handle file = OpenWaitFile();
  std::shared_ptr<OverlappedRequests> requests = OverlappedRequests::Make(file.get()).value();
  os::Handle port;
};

TEST_F(OverlappedRequestsTest, ARequestCompletesWithItsEvent) {
  const os::Handle event(::CreateEventW(nullptr, TRUE, TRUE, nullptr));
  OVERLAPPED overlapped{};
  overlapped.hEvent = event.get();
  const auto id = Pending(&overlapped);
  EXPECT_EQ(::WaitForSingleObject(event.get(), 0), WAIT_TIMEOUT) << "reset when the request begins";
  EXPECT_EQ(OverlappedResult(&overlapped, false), kPending);
  requests->Finish(id, kSuccess);
  EXPECT_EQ(::WaitForSingleObject(event.get(), kPatience), WAIT_OBJECT_0);
  EXPECT_EQ(OverlappedResult(&overlapped, false), kSuccess);
  EXPECT_EQ(OverlappedResult(&overlapped, false), kSuccess) << "the result stays";
}

TEST_F(OverlappedRequestsTest, AWaitEndsWithTheStatusThatWasMeant) {
  const os::Handle event(::CreateEventW(nullptr, FALSE, FALSE, nullptr));
  for (HANDLE with : {event.get(), HANDLE{}}) {
    for (StatusCode status : {kSuccess, kConnectionRefused, kCanceled}) {
      OVERLAPPED overlapped{};
      overlapped.hEvent = with;
      const auto id = Pending(&overlapped);
      std::thread later([&] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        requests->Finish(id, status);
      });
      EXPECT_EQ(OverlappedResult(&overlapped, true), status);
      later.join();
      EXPECT_EQ(::WaitForSingleObject(event.get(), 0), WAIT_TIMEOUT) << "the wait takes the event";
    }
  }
}

TEST_F(OverlappedRequestsTest, APortGetsEachCompletionInTheirOrder) {
  BindPort();
  OVERLAPPED first{}, second{}, third{};
  const auto a = Pending(&first), b = Pending(&second);
  EXPECT_EQ(requests->Succeed(&third), kPending);
  Packet packet = Next();
  EXPECT_TRUE(packet.success);
  EXPECT_EQ(packet.overlapped, &third);
  requests->Finish(b, kSuccess);
  packet = Next();
  EXPECT_TRUE(packet.success);
  EXPECT_EQ(packet.overlapped, &second);
  requests->Finish(a, kHostUnreachable);
  packet = Next();
  EXPECT_FALSE(packet.success) << "a failure is a failure for Win32 too";
  EXPECT_EQ(packet.overlapped, &first);
  EXPECT_EQ(OverlappedResult(&first, false), kHostUnreachable);
  EXPECT_EQ(OverlappedResult(&second, false), kSuccess);
  EXPECT_EQ(OverlappedResult(&third, false), kSuccess);
  EXPECT_EQ(Next(50).overlapped, nullptr) << "one packet each";
}

TEST_F(OverlappedRequestsTest, AMarkedEventKeepsTheCompletionOffThePort) {
  BindPort();
  const os::Handle event(::CreateEventW(nullptr, TRUE, FALSE, nullptr));
  OVERLAPPED overlapped{};
  overlapped.hEvent = reinterpret_cast<HANDLE>(reinterpret_cast<ULONG_PTR>(event.get()) | 1);
  requests->Finish(Pending(&overlapped), kSuccess);
  EXPECT_EQ(OverlappedResult(&overlapped, true), kSuccess);
  EXPECT_EQ(::WaitForSingleObject(event.get(), 0), WAIT_OBJECT_0);
  EXPECT_EQ(Next(50).overlapped, nullptr);
}

TEST_F(OverlappedRequestsTest, CancelledRequestsAreOnThePortAtOnceOldestFirst) {
  BindPort();
  std::vector<OVERLAPPED> all(20);
  for (OVERLAPPED& overlapped : all) Pending(&overlapped);
  requests->FinishAll(kCanceled);
  for (OVERLAPPED& overlapped : all) {
    const Packet packet = Next(0);
    EXPECT_FALSE(packet.success);
    ASSERT_EQ(packet.overlapped, &overlapped);
    EXPECT_EQ(OverlappedResult(&overlapped, false), kCanceled);
  }
}

TEST_F(OverlappedRequestsTest, EachRequestCompletesOnce) {
  BindPort();
  OVERLAPPED overlapped{};
  const auto id = Pending(&overlapped);
  requests->Finish(id, kSuccess);
  requests->Finish(id, kRemoteError);
  requests->FinishAll(kCanceled);
  EXPECT_TRUE(Next().success);
  EXPECT_EQ(OverlappedResult(&overlapped, false), kSuccess);
  EXPECT_EQ(Next(50).overlapped, nullptr);
}

TEST_F(OverlappedRequestsTest, SocketsAreUsedAgainWithoutAnOldDatagram) {
  BindPort();
  for (int round = 0; round < 200; ++round) {
    OVERLAPPED overlapped{};
    const auto id = Pending(&overlapped);
    ASSERT_EQ(Next(0).overlapped, nullptr) << round;
    requests->Finish(id, kSuccess);
    ASSERT_EQ(Next().overlapped, &overlapped);
    ASSERT_EQ(OverlappedResult(&overlapped, false), kSuccess);
  }
}

TEST_F(OverlappedRequestsTest, OneObjectAnswersForTheRequestsOfAnother) {
  OVERLAPPED overlapped{};
  auto other = OverlappedRequests::Make(file.get()).value();
  OverlappedRequests::Id id = 0;
  ASSERT_EQ(other->Begin(&overlapped, &id), kPending);
  requests->FinishAll(kSuccess);
  EXPECT_EQ(OverlappedResult(&overlapped, false), kPending) << "it is not one of those";
  other->Finish(id, kIoTimeout);
  EXPECT_EQ(OverlappedResult(&overlapped, true), kIoTimeout);
}

TEST_F(OverlappedRequestsTest, AClosedObjectLeavesNoRequestPending) {
  BindPort();
  OVERLAPPED pending{}, finished{};
  Pending(&pending);
  requests->Finish(Pending(&finished), kSuccess);
  requests.reset();
  bool success[2] = {};
  for (int i = 0; i < 2; ++i) {
    const Packet packet = Next();
    ASSERT_NE(packet.overlapped, nullptr);
    success[packet.overlapped == &finished] = packet.success != FALSE;
  }
  EXPECT_FALSE(success[0]);
  EXPECT_TRUE(success[1]);
  EXPECT_EQ(OverlappedResult(&pending, true), kCanceled);
  EXPECT_EQ(OverlappedResult(&finished, true), kSuccess);
}

TEST_F(OverlappedRequestsTest, TheClientMayCloseItsFile) {
  const os::Handle event(::CreateEventW(nullptr, TRUE, FALSE, nullptr));
  OVERLAPPED first{}, second{};
  first.hEvent = event.get();
  const auto id = Pending(&first);
  const HANDLE closed = file.release();
  EXPECT_TRUE(::CloseHandle(closed));
  EXPECT_FALSE(::CloseHandle(closed)) << "twice";
  requests->Finish(id, kSuccess);
  EXPECT_EQ(OverlappedResult(&first, true), kSuccess);
  requests->Finish(Pending(&second), kRemoteError);
  EXPECT_EQ(OverlappedResult(&second, true), kRemoteError);
  EXPECT_EQ(OverlappedRequests::Make(closed).code(), kInvalidHandle);
  EXPECT_EQ(OverlappedRequests::Make(nullptr).code(), kInvalidHandle);
}

TEST_F(OverlappedRequestsTest, ACancellationByTheClientIsItsResult) {
  OVERLAPPED overlapped{};
  const auto id = Pending(&overlapped);
  ASSERT_TRUE(::CancelIoEx(file.get(), &overlapped));
  EXPECT_EQ(OverlappedResult(&overlapped, true), kCanceled);
  requests->Finish(id, kSuccess);
  EXPECT_EQ(OverlappedResult(&overlapped, true), kCanceled);
}

TEST_F(OverlappedRequestsTest, AnOverlappedMayBePendingTwice) {
  BindPort();
  OVERLAPPED overlapped{};
  const auto id = Pending(&overlapped);
  EXPECT_EQ(requests->Succeed(&overlapped), kPending);
  EXPECT_TRUE(Next().success);
  requests->Finish(id, kSuccess);
  EXPECT_TRUE(Next().success);
  EXPECT_EQ(OverlappedResult(&overlapped, false), kSuccess);
}

// With a port, as a service has: without one the system cancels the requests of a thread that ends.
TEST_F(OverlappedRequestsTest, ARequestOutlivesItsThread) {
  BindPort();
  OVERLAPPED overlapped{};
  OverlappedRequests::Id id = 0;
  std::thread([&] { id = Pending(&overlapped); }).join();
  EXPECT_EQ(Next(50).overlapped, nullptr);
  requests->Finish(id, kSuccess);
  EXPECT_TRUE(Next().success);
}

TEST_F(OverlappedRequestsTest, FreedMemoryOfAnOverlappedIsNotRead) {
  auto* const overlapped = static_cast<OVERLAPPED*>(
      ::VirtualAlloc(nullptr, sizeof(OVERLAPPED), MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE));
  const auto id = Pending(overlapped);
  ASSERT_TRUE(::CancelIoEx(file.get(), overlapped));  // Nothing of the system writes to it any more.
  ASSERT_TRUE(::VirtualFree(overlapped, 0, MEM_RELEASE));
  requests->Finish(id, kRemoteError);
  requests.reset();
}

}  // namespace
}  // namespace nd::spi
