// SPDX-License-Identifier: Apache-2.0
// Notification rules, overrun, resizing; the queue alone, without a transport.
#include "provider/soft/qp/completion_queue.h"

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

class CompletionQueueTest : public ::testing::Test {
 protected:
  std::shared_ptr<DeviceCore> core = DeviceCore::Create(TestAdapter(), {}, {}).value();
  std::shared_ptr<SoftCompletionQueue> cq = SoftCompletionQueue::Create(core, 4).value();

  bool Fired() {
    const bool fired = Readable(cq->handle());
    cq->ConsumeNotification();
    return fired;
  }
  void Push(StatusCode status, bool solicited, std::uintptr_t tag = 0) {
    cq->Push({status, 0, nullptr, Tag(tag), RequestType::kReceive}, solicited);
  }
  std::size_t Drain() {
    Completion all[16];
    return cq->Poll(all);
  }
};

TEST_F(CompletionQueueTest, ND_234_EachTypeFiresForItsKindOnly) {
  struct Row {
    NotifyType type;
    bool plain, solicited, error;
  };
  for (const Row& row :
       {Row{NotifyType::kAny, true, true, true}, Row{NotifyType::kSolicited, false, true, true},
        Row{NotifyType::kErrors, false, false, true}}) {
    const auto fires = [&](StatusCode status, bool solicited) {
      EXPECT_TRUE(cq->Notify(row.type).ok());
      EXPECT_FALSE(Fired());
      Push(status, solicited);
      const bool fired = Fired();
      Drain();
      if (!fired) {
        Push(StatusCode::kCanceled, false);  // Disarms.
        EXPECT_TRUE(Fired());
        Drain();
      }
      Push(StatusCode::kCanceled, true);
      EXPECT_FALSE(Fired()) << "one Notify fires once";
      Drain();
      return fired;
    };
    EXPECT_EQ(fires(StatusCode::kSuccess, false), row.plain);
    EXPECT_EQ(fires(StatusCode::kSuccess, true), row.solicited);
    EXPECT_EQ(fires(StatusCode::kIoTimeout, false), row.error);
  }
}

TEST_F(CompletionQueueTest, ND_234_ArmedKindsMerge) {
  const auto merged = [&](NotifyType first, NotifyType second, bool solicited) {
    EXPECT_TRUE(cq->Notify(first).ok());
    EXPECT_TRUE(cq->Notify(second).ok());
    Push(StatusCode::kSuccess, solicited);
    const bool fired = Fired();
    Drain();
    if (!fired) Push(StatusCode::kCanceled, false);
    Fired();
    Drain();
    return fired;
  };
  EXPECT_TRUE(merged(NotifyType::kSolicited, NotifyType::kAny, false));
  EXPECT_TRUE(merged(NotifyType::kAny, NotifyType::kErrors, false));
  EXPECT_TRUE(merged(NotifyType::kErrors, NotifyType::kSolicited, true));
  EXPECT_TRUE(merged(NotifyType::kSolicited, NotifyType::kErrors, true));
  EXPECT_FALSE(merged(NotifyType::kErrors, NotifyType::kSolicited, false));
}

TEST_F(CompletionQueueTest, AnyFiresAtOnceForWaitingCompletions) {
  Push(StatusCode::kSuccess, false);
  EXPECT_TRUE(cq->Notify(NotifyType::kSolicited).ok());
  EXPECT_FALSE(Fired());
  EXPECT_TRUE(cq->Notify(NotifyType::kAny).ok());
  EXPECT_TRUE(Fired());
}

TEST_F(CompletionQueueTest, ANotificationCallsItsFunctionInPlaceOfTheHandle) {
  int fired = 0;
  ASSERT_TRUE(cq->SetNotification([&] { ++fired; }).ok());
  Push(StatusCode::kSuccess, false);
  EXPECT_EQ(fired, 0) << "not armed";
  EXPECT_TRUE(cq->Notify(NotifyType::kAny).ok());
  EXPECT_EQ(fired, 1) << "a completion waits already";
  Drain();
  EXPECT_TRUE(cq->Notify(NotifyType::kAny).ok());
  EXPECT_EQ(fired, 1);
  Push(StatusCode::kSuccess, false);
  Push(StatusCode::kSuccess, false);
  EXPECT_EQ(fired, 2) << "one Notify fires once";
  EXPECT_FALSE(Readable(cq->handle()));
}

TEST_F(CompletionQueueTest, ANotificationFunctionNeedsTheProgressThread) {
  EXPECT_EQ(cq->SetNotification(nullptr), StatusCode::kInvalidParameter1);
  auto alone = DeviceCore::Create(TestAdapter(), {.progress_thread = false}, {}).value();
  auto queue = SoftCompletionQueue::Create(alone, 4).value();
  EXPECT_EQ(queue->SetNotification([] {}), StatusCode::kNotSupported);
}

TEST_F(CompletionQueueTest, OverrunLosesTheQueue) {
  for (std::uintptr_t i = 0; i < 4; ++i) Push(StatusCode::kSuccess, false, i);
  EXPECT_TRUE(cq->state().ok());
  Push(StatusCode::kSuccess, false, 4);
  EXPECT_EQ(cq->state().code(), StatusCode::kBufferOverflow);
  EXPECT_EQ(Drain(), 4u);
  EXPECT_EQ(cq->Wait(In(kPatience)).code(), StatusCode::kBufferOverflow);
}

TEST_F(CompletionQueueTest, ResizeKeepsWaitingCompletions) {
  for (std::uintptr_t i = 0; i < 4; ++i) Push(StatusCode::kSuccess, false, i);
  EXPECT_EQ(cq->Resize(3).code(), StatusCode::kBufferOverflow);
  EXPECT_EQ(cq->Resize(0).code(), StatusCode::kInvalidParameter);
  EXPECT_TRUE(cq->Resize(100).ok());
  for (std::uintptr_t i = 4; i < 100; ++i) Push(StatusCode::kSuccess, false, i);
  EXPECT_TRUE(cq->state().ok());
  Completion all[100];
  ASSERT_EQ(cq->Poll(all), 100u);
  for (std::uintptr_t i = 0; i < 100; ++i) EXPECT_EQ(all[i].request_context, Tag(i));
}

TEST_F(CompletionQueueTest, WaitTimesOut) {
  EXPECT_EQ(cq->Wait(In(std::chrono::milliseconds(1))).code(), StatusCode::kIoTimeout);
}

TEST(Limits, ND_238_AllMaximaTogetherAndOneMore) {
  const AdapterInfo info = TestAdapter();
  auto device = MakeSoftDevice(info, {}).value();
  QpOptions options;
  options.receive_cq = options.initiator_cq =
      device->CreateCompletionQueue(info.max_completion_queue_depth).value();
  options.receive_depth = info.max_receive_queue_depth;
  options.initiator_depth = info.max_initiator_queue_depth;
  options.max_receive_sge = info.max_receive_sge;
  options.max_initiator_sge = info.max_initiator_sge;
  options.inline_size = info.max_inline_data_size;
  EXPECT_TRUE(device->CreateQueuePair(options).ok());
  for (std::uint32_t QpOptions::*field :
       {&QpOptions::receive_depth, &QpOptions::initiator_depth, &QpOptions::max_receive_sge,
        &QpOptions::max_initiator_sge, &QpOptions::inline_size}) {
    QpOptions one_more = options;
    ++(one_more.*field);
    EXPECT_EQ(device->CreateQueuePair(one_more).code(), StatusCode::kInvalidParameter);
  }
  EXPECT_FALSE(device->CreateCompletionQueue(info.max_completion_queue_depth + 1).ok());
  EXPECT_TRUE(
      device->CreateSharedReceiveQueue(info.max_shared_receive_queue_depth, info.max_receive_sge).ok());
  EXPECT_FALSE(device->CreateSharedReceiveQueue(info.max_shared_receive_queue_depth + 1, 1).ok());
}

TEST(Registration, ND_240_BadArguments) {
  auto device = MakeSoftDevice(TestAdapter(), {}).value();
  std::byte memory[64];
  EXPECT_EQ(device->Register(nullptr, 64, 0).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(device->Register(memory, 0, 0).code(), StatusCode::kInvalidBufferSize);
  EXPECT_EQ(device->Register(memory, 64, 0x80).code(), StatusCode::kInvalidParameter);
  EXPECT_EQ(device->Register(memory, SIZE_MAX, 0).code(), StatusCode::kInvalidBufferSize);
  EXPECT_EQ(device->AllocateBuffer(0).code(), StatusCode::kInvalidBufferSize);
  std::vector<std::uint32_t> tokens;
  for (int i = 0; i < 2000; ++i) tokens.push_back(device->Register(memory, 64, 0).value()->remote_token());
  std::sort(tokens.begin(), tokens.end());
  // Random 32-bit numbers: among 2000 a repetition has a probability of 1 in 2000.
  EXPECT_GE(std::unique(tokens.begin(), tokens.end()) - tokens.begin(), 1998);
}

}  // namespace
}  // namespace nd::provider::soft
