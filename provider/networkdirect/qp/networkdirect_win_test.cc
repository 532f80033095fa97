// SPDX-License-Identifier: Apache-2.0
// The client half over an adapter whose every answer the test chooses: orders become calls, and each way in
// which a call ends becomes its report.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>

#include "provider/networkdirect/qp/networkdirect_device_win.h"
#include "provider/networkdirect/qp/testing/fake_adapter_win.h"

namespace nd::provider::networkdirect {
namespace {

using enum StatusCode;
using std::chrono::seconds;

// Keeps the reports; answers Hello.
class Daemon final : public DaemonHalf {
 public:
  Status Send(std::span<const std::byte> bytes) override {
    Message message = Decode(bytes).value();
    const bool hello = message.kind == Kind::kHello;
    if (hello && device != nullptr && !silent) device->OnDaemonMessage(Encode(welcome));
    std::lock_guard lock(mutex_);
    reports_.push_back(std::move(message));
    changed_.notify_all();
    return {};
  }
  // Waits for the next report behind Hello.
  Message Next() {
    std::unique_lock lock(mutex_);
    std::erase_if(reports_, [](const Message& message) { return message.kind == Kind::kHello; });
    if (!changed_.wait_for(lock, seconds(30), [this] { return !reports_.empty(); })) return {};
    Message first = std::move(reports_.front());
    reports_.pop_front();
    return first;
  }
  bool Quiet() {
    std::lock_guard lock(mutex_);
    return std::ranges::all_of(reports_, [](const Message& message) { return message.kind == Kind::kHello; });
  }

  Device* device = nullptr;
  Message welcome;
  bool silent = false;

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Message> reports_;
};

class NetworkDirectQpTest : public ::testing::Test {
 protected:
  NetworkDirectQpTest() {
    info_.name = "nd0";
    info_.max_completion_queue_depth = info_.max_receive_queue_depth = info_.max_initiator_queue_depth = 64;
    info_.max_receive_sge = info_.max_initiator_sge = 4;
    info_.max_transfer_length = 1 << 20;
    values_.data = {1, 2, 3};
    values_.inbound = 5;
    values_.outbound = 6;
    values_.local = Address::Parse("10.0.0.1:700").value();
    values_.peer = Address::Parse("10.0.0.2:800").value();
    adapter_ = new FakeAdapter(script_, values_);
    held_ = Com<spi::IND2Adapter>(adapter_);
    device_ =
        MakeNetworkDirectDevice(info_, [this](const std::string& dll, const ClassId&, std::uint64_t id) {
          opened_ = dll + " " + std::to_string(id);
          return open_status_.ok() ? Result<Com<spi::IND2Adapter>>(held_)
                                   : Result<Com<spi::IND2Adapter>>(open_status_);
        });
    daemon_->welcome.kind = Kind::kWelcome;
    daemon_->welcome.text = "x.dll";
    daemon_->welcome.number = 9;
    daemon_->device = device_.get();
  }
  // Nothing of the adapter is left. The thread of the device ends after the test has dropped the device, and
  // may call the adapter until then.
  void TearDown() override {
    pair_.reset();
    queue_.reset();
    daemon_->device = nullptr;
    device_.reset();
    held_.reset();
    const auto until = std::chrono::steady_clock::now() + seconds(30);
    while (living != 0 && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(seconds(0));
    EXPECT_EQ(living, 0);
  }
  void Meet() { ASSERT_TRUE(device_->Meet(daemon_).ok()); }
  void Make() {
    Meet();
    queue_ = device_->CreateCompletionQueue(16).value();
    QpOptions options;
    options.receive_cq = options.initiator_cq = queue_;
    options.context = &info_;
    options.receive_depth = options.initiator_depth = 8;
    options.max_receive_sge = options.max_initiator_sge = 2;
    options.on_peer_closed = [this](DisconnectReason, const Status&) { gone_.set_value(); };
    pair_ = device_->CreateQueuePair(options).value();
  }
  void Order(Kind kind, std::uint64_t number = 0) {
    Message order;
    order.kind = kind;
    order.number = number;
    order.endpoint = 3;
    order.listens = listens_;
    order.queue_pair = pair_ ? pair_->device_number() : 0;
    order.local = values_.local;
    order.remote = values_.peer;
    device_->OnDaemonMessage(Encode(order));
  }
  Message Reserve(bool listens) {
    listens_ = listens;
    Order(Kind::kReserve);
    return daemon_->Next();
  }
  Status Attach(std::uint64_t number) {
    HandOff hand_off;
    hand_off.record.transport = kTransport;
    hand_off.record.read_outbound = 4;
    SetPayload(PayloadFor(number), &hand_off.record);
    return pair_->Attach(std::move(hand_off));
  }
  void Establish() {
    Make();
    ASSERT_TRUE(Reserve(false).status.ok());
    Order(Kind::kConnect, 5);
    script_.Finish("Connect", kSuccess);
    ASSERT_EQ(daemon_->Next().kind, Kind::kReplied);
    Order(Kind::kConfirm, 5);
    script_.Finish("CompleteConnect", kSuccess);
    ASSERT_EQ(daemon_->Next().kind, Kind::kEstablished);
    ASSERT_TRUE(Attach(5).ok());
  }

  AdapterInfo info_;
  PeerValues values_;
  Script script_;
  FakeAdapter* adapter_ = nullptr;
  Com<spi::IND2Adapter> held_;
  Status open_status_;
  std::string opened_;
  const std::shared_ptr<Daemon> daemon_ = std::make_shared<Daemon>();
  std::promise<void> gone_;
  bool listens_ = false;
  std::shared_ptr<Device> device_;
  std::shared_ptr<CompletionQueue> queue_;
  std::shared_ptr<QueuePair> pair_;
};

TEST_F(NetworkDirectQpTest, OpensTheAdapterThatTheBrokerNames) {
  Meet();
  EXPECT_EQ(opened_, "x.dll 9");
}

TEST_F(NetworkDirectQpTest, ReportsWhyAnAdapterCannotBeOpened) {
  daemon_->welcome.status = Status(kDeviceNotReady, "it fell over");
  EXPECT_EQ(device_->Meet(daemon_).message(), "it fell over");
  daemon_->welcome.status = {};
  open_status_ = Status(kDeviceRemoved, "no such file");
  EXPECT_EQ(device_->Meet(daemon_).message(), "no such file");
}

TEST_F(NetworkDirectQpTest, AnActiveConnectionIsMadeAndEnds) {
  Establish();
  char byte = 0;
  const Sge sge{&byte, 1, 7};
  EXPECT_TRUE(pair_->Send(nullptr, {&sge, 1}, 0).ok());
  std::promise<Status> done;
  pair_->Disconnect(seconds(20), [&](const Status& status) { done.set_value(status); });
  script_.Finish("Disconnect", kSuccess);
  EXPECT_TRUE(done.get_future().get().ok());
  EXPECT_TRUE(script_.Await("Flush"));
  EXPECT_EQ(pair_->Send(nullptr, {&sge, 1}, 0).code(), kConnectionInvalid);
}

TEST_F(NetworkDirectQpTest, TheReplyBringsDataAndLimits) {
  Make();
  Reserve(false);
  Order(Kind::kConnect, 5);
  script_.Finish("Connect", kSuccess);
  const Message replied = daemon_->Next();
  EXPECT_EQ(replied.number, 5u);
  EXPECT_EQ(replied.data, values_.data);
  EXPECT_EQ(replied.limits, (ReadLimits{5, 6}));
}

TEST_F(NetworkDirectQpTest, EachFailureOfConnectIsReported) {
  Make();
  struct Case {
    StatusCode code;
    bool data;
    Kind kind;
    Detail detail;
  };
  std::uint64_t number = 0;
  for (const Case& c : {Case{kConnectionRefused, true, Kind::kRefused, Detail::kPeerRejected},
                        Case{kConnectionRefused, false, Kind::kRefused, Detail::kNone},
                        Case{kHostUnreachable, true, Kind::kFailed, Detail::kNone},
                        Case{kIoTimeout, false, Kind::kFailed, Detail::kNone},
                        Case{kCanceled, false, Kind::kFailed, Detail::kNone}}) {
    values_.data = c.data ? std::vector<std::uint8_t>{4} : std::vector<std::uint8_t>{};
    Reserve(false);
    Order(Kind::kConnect, ++number);
    script_.Finish("Connect", c.code);
    const Message report = daemon_->Next();
    EXPECT_EQ(report.kind, c.kind) << Name(c.code);
    EXPECT_EQ(report.number, number);
    EXPECT_EQ(report.status.code(), c.code);
    EXPECT_EQ(report.status.detail(), c.detail);
    EXPECT_EQ(report.data.empty(), c.kind == Kind::kFailed || !c.data);
  }
}

TEST_F(NetworkDirectQpTest, AnAnswerAtOnceIsFinal) {
  Make();
  Reserve(false);
  script_.Set("Connect", Hr(kAddressAlreadyExists));
  Order(Kind::kConnect, 1);
  EXPECT_EQ(daemon_->Next().status.code(), kAddressAlreadyExists);
  script_.Set("Connect", static_cast<HRESULT>(0x80070006));  // No status of Network Direct.
  Order(Kind::kConnect, 2);
  EXPECT_EQ(daemon_->Next().status.code(), kUnsuccessful);
  script_.Set("Connect", S_OK);
  Order(Kind::kConnect, 3);
  EXPECT_EQ(daemon_->Next().kind, Kind::kReplied);
}

TEST_F(NetworkDirectQpTest, APortThatTheAdapterRefusesIsReported) {
  Make();
  script_.Set("Bind", Hr(kSharingViolation));
  for (const bool listens : {false, true}) {
    const Message reserved = Reserve(listens);
    EXPECT_EQ(reserved.kind, Kind::kReserved);
    EXPECT_EQ(reserved.endpoint, 3u);
    EXPECT_EQ(reserved.status.code(), kSharingViolation);
  }
}

TEST_F(NetworkDirectQpTest, APassiveConnectionIsMade) {
  Make();
  Reserve(true);
  Order(Kind::kListen);
  EXPECT_TRUE(device_->AwaitListening(values_.local).ok());
  script_.Finish("GetConnectionRequest", kSuccess);
  const Message arrived = daemon_->Next();
  EXPECT_EQ(arrived.kind, Kind::kArrived);
  EXPECT_EQ(arrived.local, values_.local);
  EXPECT_EQ(arrived.remote, values_.peer);
  EXPECT_EQ(arrived.data, values_.data);
  EXPECT_EQ(arrived.limits, (ReadLimits{5, 6}));
  EXPECT_TRUE(script_.Await("GetConnectionRequest", 2)) << "the next request is awaited";
  Order(Kind::kAccept, arrived.number);
  script_.Finish("Accept", kSuccess);
  EXPECT_EQ(daemon_->Next().kind, Kind::kEstablished);
  EXPECT_TRUE(Attach(arrived.number).ok());
  EXPECT_EQ(Attach(arrived.number).code(), kConnectionActive);
}

TEST_F(NetworkDirectQpTest, EachEndOfARequestIsReportedOrCarriedOut) {
  Make();
  Reserve(true);
  Order(Kind::kListen);
  script_.Finish("GetConnectionRequest", kConnectionAborted);  // Withdrawn; the next one is awaited.
  script_.Finish("GetConnectionRequest", kSuccess);
  const std::uint64_t first = daemon_->Next().number;
  Order(Kind::kAccept, first);
  values_.data.clear();
  script_.Finish("Accept", kConnectionAborted);
  const Message lost = daemon_->Next();
  EXPECT_EQ(lost.kind, Kind::kLost);
  EXPECT_EQ(lost.status.code(), kConnectionAborted);
  script_.Finish("GetConnectionRequest", kSuccess);
  Order(Kind::kReject, daemon_->Next().number);
  EXPECT_TRUE(script_.Await("Reject"));
}

TEST_F(NetworkDirectQpTest, ListenFailsWhenTheAdapterRefusesIt) {
  Make();
  script_.Set("Listen", Hr(kInsufficientResources));
  Reserve(true);
  Order(Kind::kListen);
  EXPECT_EQ(device_->AwaitListening(values_.local).code(), kInsufficientResources);
  Order(Kind::kRelease);
  EXPECT_EQ(device_->AwaitListening(values_.local).code(), kDeviceRemoved);
}

TEST_F(NetworkDirectQpTest, AnAbortedAttemptReportsNothing) {
  Make();
  Reserve(false);
  Order(Kind::kConnect, 1);
  ASSERT_TRUE(script_.Await("Connect"));
  Order(Kind::kAbort, 1);
  Reserve(false);  // The answer comes behind everything before it.
  EXPECT_TRUE(daemon_->Quiet());
}

TEST_F(NetworkDirectQpTest, ThePeersDisconnectIsToldOnce) {
  Establish();
  script_.Finish("NotifyDisconnect", kSuccess);
  EXPECT_EQ(gone_.get_future().wait_for(seconds(30)), std::future_status::ready);
}

TEST_F(NetworkDirectQpTest, APeerThatLeftBeforeTheAttachIsToldToo) {
  Make();
  Reserve(false);
  Order(Kind::kConnect, 5);
  script_.Finish("Connect", kSuccess);
  daemon_->Next();
  Order(Kind::kConfirm, 5);
  script_.Finish("CompleteConnect", kSuccess);
  ASSERT_EQ(daemon_->Next().kind, Kind::kEstablished);
  script_.Finish("NotifyDisconnect", kSuccess);
  ASSERT_TRUE(script_.Await("GetOverlappedResult", 3));
  Reserve(false);  // Its answer comes behind what the thread does with the result.
  ASSERT_TRUE(Attach(5).ok());
  EXPECT_EQ(gone_.get_future().wait_for(seconds(30)), std::future_status::ready);
}

TEST_F(NetworkDirectQpTest, ADisconnectWithoutAnswerTimesOut) {
  Establish();
  std::promise<Status> done;
  pair_->Disconnect(std::chrono::milliseconds(50), [&](const Status& status) { done.set_value(status); });
  EXPECT_EQ(done.get_future().get().code(), kIoTimeout);
}

TEST_F(NetworkDirectQpTest, OnlyTheQueuePairOfAConnectionGetsIt) {
  Make();
  EXPECT_EQ(Attach(5).code(), kConnectionInvalid);
  HandOff other;
  other.record.transport = TransportKind{2};
  EXPECT_EQ(pair_->Attach(std::move(other)).code(), kInvalidParameter);
}

TEST_F(NetworkDirectQpTest, TheNextBrokerFindsConnectionsAndNothingElse) {
  Establish();
  Reserve(true);
  Order(Kind::kListen);
  ASSERT_TRUE(device_->AwaitListening(values_.local).ok());
  device_->OnDaemonBack();
  EXPECT_EQ(device_->AwaitListening(values_.local).code(), kDeviceRemoved);
  script_.Set("Bind", Hr(kSharingViolation));
  EXPECT_TRUE(Reserve(false).status.ok()) << "the connection has the port";
}

TEST_F(NetworkDirectQpTest, ACompletionBeforeNotifyFires) {
  Make();
  std::promise<void> fired;
  ASSERT_TRUE(queue_->SetNotification([&] { fired.set_value(); }).ok());
  {
    std::lock_guard lock(adapter_->queue->mutex);
    adapter_->queue->done.push_back({Hr(kDataOverrun), 12, adapter_->pair_context, this, 0});
  }
  ASSERT_TRUE(queue_->Notify(NotifyType::kAny).ok());
  EXPECT_EQ(fired.get_future().wait_for(seconds(30)), std::future_status::ready);
  std::array<Completion, 4> out;
  ASSERT_EQ(queue_->Poll(out), 1u);
  EXPECT_EQ(out[0].status, kDataOverrun);
  EXPECT_EQ(out[0].bytes_transferred, 12u);
  EXPECT_EQ(out[0].queue_pair_context, &info_);
  EXPECT_EQ(out[0].request_context, this);
}

TEST_F(NetworkDirectQpTest, WaitEndsWithTheNotificationOfTheAdapter) {
  Make();
  EXPECT_EQ(queue_->Wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(20)).code(),
            kIoTimeout);
  auto waits = std::async(std::launch::async, [&] { return queue_->Wait(Time::max()); });
  ASSERT_TRUE(script_.Await("Notify"));
  {
    std::lock_guard lock(adapter_->queue->mutex);
    adapter_->queue->done.push_back({0, 1, adapter_->pair_context, nullptr, 0});
  }
  script_.Finish("Notify", kSuccess);
  EXPECT_TRUE(waits.get().ok());
  std::array<Completion, 4> out;
  EXPECT_EQ(queue_->Poll(out), 1u);
}

TEST_F(NetworkDirectQpTest, ALostQueueSaysSo) {
  Make();
  ASSERT_TRUE(queue_->Notify(NotifyType::kErrors).ok());
  script_.Finish("Notify", kBufferOverflow);
  EXPECT_EQ(queue_->Wait(Time::max()).code(), kBufferOverflow);
  EXPECT_EQ(queue_->state().code(), kBufferOverflow);
}

TEST_F(NetworkDirectQpTest, MemoryIsTheAdapters) {
  Make();
  script_.Set("Register", Hr(kAccessViolation));
  EXPECT_EQ(device_->Register(this, 8, kAllowLocalWrite).code(), kAccessViolation);
  EXPECT_EQ(device_->Register(this, 8, kAllowRemoteAtomic).code(), kNotSupported);
  script_.Set("Register", S_OK);
  script_.Set("Deregister", Hr(kDeviceBusy));
  const auto region = device_->Register(this, 8, kAllowLocalWrite).value();
  EXPECT_EQ(region->local_token(), 7u);
  EXPECT_EQ(region->Deregister().code(), kDeviceBusy);
  script_.Set("Deregister", S_OK);
  EXPECT_TRUE(region->Deregister().ok());
  EXPECT_EQ(device_->CreateWindow().code(), kNoMemory);
  EXPECT_EQ(device_->CreateSharedReceiveQueue(4, 1).code(), kInvalidParameter1);
}

// TearDown() checks it.
TEST_F(NetworkDirectQpTest, NothingOfAListenerAndAConnectionIsLeft) {
  Establish();
  Reserve(true);
  Order(Kind::kListen);
  ASSERT_TRUE(device_->AwaitListening(values_.local).ok());
}

}  // namespace
}  // namespace nd::provider::networkdirect
