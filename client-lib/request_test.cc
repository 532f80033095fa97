// SPDX-License-Identifier: Apache-2.0
// One completion per operation, delivered by waiting, by callback or by the completion handle.
#include "nd/request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>

#include "base/os/wait.h"
#include "client-lib/src/face.h"

namespace nd {
namespace {

using client::CompletionPort;
using client::Core;
using client::Dispatcher;

bool Readable(int fd) {
  os::Watched entry[] = {{fd}};
  return os::Wait(entry, Duration::zero()) == 1;
}

class RequestTest : public ::testing::Test {
 protected:
  std::shared_ptr<CompletionPort> port_ = std::make_shared<CompletionPort>();
  Dispatcher dispatcher_;
};

TEST_F(RequestTest, IsInvalidBeforeTheFirstOperation) {
  Request request;
  EXPECT_EQ(request.GetResult(false), StatusCode::kConnectionInvalid);
  ASSERT_TRUE(Core(request.state())->Start(port_));
  Core(request.state())->Abort();
  EXPECT_EQ(request.GetResult(), StatusCode::kConnectionInvalid);
}

TEST_F(RequestTest, IsPendingUntilFinishedAndThenConstant) {
  Request request;
  ASSERT_TRUE(Core(request.state())->Start(port_));
  EXPECT_EQ(request.GetResult(false), StatusCode::kPending);
  EXPECT_FALSE(Core(request.state())->Start(port_));
  auto waiter = std::async(std::launch::async, [&] { return request.GetResult(); });
  Core(request.state())->Finish(StatusCode::kConnectionRefused, dispatcher_);
  EXPECT_EQ(waiter.get(), StatusCode::kConnectionRefused);
  EXPECT_EQ(request.GetResult(false), StatusCode::kConnectionRefused);
  EXPECT_EQ(request.GetResult(), StatusCode::kConnectionRefused);
}

TEST_F(RequestTest, WaitsAtTheCompletionHandleInOrder) {
  Request first, second;
  ASSERT_TRUE(Core(first.state())->Start(port_));
  ASSERT_TRUE(Core(second.state())->Start(port_));
  EXPECT_FALSE(Readable(port_->handle()));
  Core(second.state())->Finish({}, dispatcher_);
  Core(first.state())->Finish({}, dispatcher_);
  EXPECT_TRUE(Readable(port_->handle()));
  EXPECT_EQ(port_->Pop(), &second);
  EXPECT_TRUE(Readable(port_->handle()));
  EXPECT_EQ(port_->Pop(), &first);
  EXPECT_FALSE(Readable(port_->handle()));
  EXPECT_EQ(port_->Pop(), nullptr);
}

TEST_F(RequestTest, LeavesTheHandleWhenDestroyedAndStaysWhenMoved) {
  auto gone = std::make_unique<Request>();
  Request from;
  ASSERT_TRUE(Core(gone->state())->Start(port_));
  ASSERT_TRUE(Core(from.state())->Start(port_));
  Core(gone->state())->Finish({}, dispatcher_);
  Core(from.state())->Finish({}, dispatcher_);
  gone.reset();
  Request to = std::move(from);
  EXPECT_EQ(port_->Pop(), &to);
  EXPECT_EQ(port_->Pop(), nullptr);
  EXPECT_FALSE(Readable(port_->handle()));
}

TEST_F(RequestTest, CallsBackOnceWithoutTheHandle) {
  std::promise<Status> called;
  Request request([&](const Status& status) { called.set_value(status); });
  ASSERT_TRUE(Core(request.state())->Start(port_));
  Core(request.state())->Finish(StatusCode::kIoTimeout, dispatcher_);
  EXPECT_EQ(called.get_future().get(), StatusCode::kIoTimeout);
  EXPECT_FALSE(Readable(port_->handle()));
}

TEST_F(RequestTest, DestructionWaitsForARunningCallback) {
  std::promise<void> entered, leave;
  std::atomic<bool> left = false;
  auto request = std::make_unique<Request>([&](const Status&) {
    entered.set_value();
    leave.get_future().wait();
    left = true;
  });
  ASSERT_TRUE(Core(request->state())->Start(port_));
  Core(request->state())->Finish({}, dispatcher_);
  entered.get_future().wait();
  auto destroyed = std::async(std::launch::async, [&] {
    request.reset();
    return left.load();
  });
  leave.set_value();
  EXPECT_TRUE(destroyed.get());
}

TEST_F(RequestTest, MayBeDestroyedFromInsideItsCallback) {
  std::promise<void> called;
  std::unique_ptr<Request> request;
  request = std::make_unique<Request>([&](const Status&) {
    request.reset();
    called.set_value();
  });
  auto state = request->state();
  ASSERT_TRUE(Core(state)->Start(port_));
  Core(state)->Finish({}, dispatcher_);
  called.get_future().wait();
  EXPECT_EQ(request, nullptr);
}

TEST_F(RequestTest, DoesNotCallBackAfterDestruction) {
  std::promise<void> release;
  std::atomic<int> calls = 0;
  dispatcher_.Post([&] { release.get_future().wait(); });
  {
    Request request([&](const Status&) { ++calls; });
    ASSERT_TRUE(Core(request.state())->Start(port_));
    Core(request.state())->Finish({}, dispatcher_);
  }
  release.set_value();
  dispatcher_.Stop();
  EXPECT_EQ(calls, 0);
}

}  // namespace
}  // namespace nd
