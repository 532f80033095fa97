// SPDX-License-Identifier: Apache-2.0
// Commands become messages to the client that owns the object; reports become events, each in its place.
#include "provider/networkdirect/cm/clerk.h"

#include <gtest/gtest.h>

#include <deque>

namespace nd::provider::networkdirect {
namespace {

using enum StatusCode;
constexpr ClientId kOne{1}, kTwo{2};

struct Sink final : CmSink {
  void OnReserved(EndpointId endpoint, const Status& status) override {
    Note("reserved", static_cast<std::uint64_t>(endpoint), status);
  }
  void OnRequest(const InboundRequest& request) override {
    requests.push_back(request);
    Note("request", 0, {});
  }
  void OnReply(CmId id, bool known, const ReadLimits& peer, const Bytes& data) override {
    EXPECT_TRUE(known);
    Note("reply", id, {});
    limits = peer;
    bytes = data;
  }
  void OnRejected(CmId id, const Status& status, const Bytes& data) override {
    Note("rejected", id, status);
    bytes = data;
  }
  void OnFailed(CmId id, const Status& status) override { Note("failed", id, status); }
  void OnEstablished(CmId id) override { Note("established", id, {}); }
  void OnLost(CmId id, const Status& status, const Bytes& data) override {
    Note("lost", id, status);
    bytes = data;
  }
  void OnAdaptersChanged() override { Note("adapters", 0, {}); }
  void SendToClient(ClientId client, std::span<const std::byte> bytes_sent) override {
    sent.emplace_back(client, Decode(bytes_sent).value());
  }
  void Note(const std::string& what, CmId id, const Status& status) {
    Note(what, static_cast<std::uint64_t>(id), status);
  }
  void Note(const std::string& what, std::uint64_t number, const Status& status) {
    events.push_back(what + (status.ok() ? "" : " " + std::string(Name(status.code()))));
    last = number;
  }
  std::string Last() { return events.empty() ? "" : events.back(); }

  std::vector<std::string> events;
  std::uint64_t last = 0;
  std::vector<InboundRequest> requests;
  ReadLimits limits;
  Bytes bytes;
  std::deque<std::pair<ClientId, Message>> sent;
};

class ClerkTest : public ::testing::Test {
 protected:
  void SetUp() override {
    FoundAdapter good, bad;
    good.description.info.name = "nd0";
    good.description.info.adapter_id = 77;
    good.description.info.max_caller_data = 56;
    good.description.info.addresses = {Ip("10.0.0.1"), Ip("fe80::1")};
    good.dll = "C:\\nd.dll";
    good.class_id[0] = 5;
    bad.description.info.name = "nd1";
    bad.description.problem = Status(kDeviceNotReady, "it fell over");
    clerk.SetAdapters({good, bad});
    EXPECT_EQ(sink.Last(), "adapters");
  }
  static Address Ip(const char* text) { return Address::Parse(text).value(); }
  Status Say(ClientId client, const Message& message) {
    return clerk.OnClientMessage(client, Encode(message));
  }
  static Message Of(Kind kind, std::uint64_t number = 0) {
    Message message;
    message.kind = kind;
    message.number = number;
    return message;
  }
  // The newest message to a client; it must be for this one.
  Message Told(ClientId client = kOne) {
    if (sink.sent.empty() || sink.sent.back().first != client) {
      ADD_FAILURE() << "no message to this client";
      return {};
    }
    return sink.sent.back().second;
  }
  void Meet(ClientId client) {
    Message hello = Of(Kind::kHello);
    hello.text = "nd0";
    ASSERT_TRUE(Say(client, hello).ok());
  }
  void Reserve(ClientId client, std::uint64_t endpoint, bool listens, const char* local = "10.0.0.1:700") {
    clerk.ReserveFor(client, listens, EndpointId{endpoint}, "nd0", Ip(local));
    Message reserved = Of(Kind::kReserved);
    reserved.endpoint = endpoint;
    ASSERT_TRUE(Say(client, reserved).ok());
    ASSERT_EQ(sink.Last(), "reserved");
  }
  void Connect(std::uint64_t id) {
    ConnectParams params;
    params.id = CmId{id};
    params.endpoint = EndpointId{3};
    params.adapter = "nd0";
    params.local = Ip("10.0.0.1:700");
    params.remote = Ip("10.0.0.2:800");
    params.offer = {1, 2};
    params.private_data = {9};
    params.device_qp = 44;
    params.client = kOne;
    clerk.Connect(params);
  }
  // A request for endpoint 4 of the first client.
  Message Arrival(std::uint64_t number) {
    Message arrived = Of(Kind::kArrived, kArrivedBit | number);
    arrived.endpoint = 4;
    arrived.local = Ip("10.0.0.1:700");
    arrived.remote = Ip("10.0.0.2:801");
    arrived.limits = {6, 7};
    arrived.data = {1, 2};
    return arrived;
  }
  CmId Arrive() {
    EXPECT_TRUE(Say(kOne, Arrival(1)).ok());
    return sink.requests.empty() ? CmId{} : sink.requests.back().id;
  }

  Sink sink;
  Clerk clerk{sink};
};

TEST_F(ClerkTest, TellsADeviceWhereItsAdapterIs) {
  Meet(kOne);
  EXPECT_EQ(Told().kind, Kind::kWelcome);
  EXPECT_TRUE(Told().status.ok());
  EXPECT_EQ(Told().number, 77u);
  EXPECT_EQ(Told().text, "C:\\nd.dll");
  EXPECT_EQ(Told().class_id[0], 5);
  Message hello = Of(Kind::kHello);
  hello.text = "nd1";
  EXPECT_TRUE(Say(kTwo, hello).ok());
  EXPECT_EQ(Told(kTwo).status.code(), kDeviceNotReady);
  EXPECT_EQ(Told(kTwo).status.message(), "it fell over");
  hello.text = "nd7";
  EXPECT_TRUE(Say(kTwo, hello).ok());
  EXPECT_EQ(Told(kTwo).status.code(), kDeviceRemoved);
}

TEST_F(ClerkTest, AnActiveConnectionTakesItsSteps) {
  Meet(kOne);
  Reserve(kOne, 3, false);
  Connect(5);
  const Message order = Told();
  EXPECT_EQ(order.kind, Kind::kConnect);
  EXPECT_EQ(order.endpoint, 3u);
  EXPECT_EQ(order.queue_pair, 44u);
  EXPECT_EQ(order.remote, Ip("10.0.0.2:800"));
  EXPECT_EQ(order.limits, (ReadLimits{1, 2}));
  EXPECT_EQ(order.data, Bytes{9});
  Message replied = Of(Kind::kReplied, 5);
  replied.limits = {2, 1};
  replied.data = {8};
  ASSERT_TRUE(Say(kOne, replied).ok());
  EXPECT_EQ(sink.Last(), "reply");
  EXPECT_EQ(sink.limits, (ReadLimits{1, 2})) << "the peer serves the Reads that this side issues";
  EXPECT_EQ(sink.bytes, Bytes{8});
  clerk.Confirm(CmId{5});
  EXPECT_EQ(Told().kind, Kind::kConfirm);
  EXPECT_FALSE(clerk.TakeHandOff(CmId{5}).ok()) << "before it is established";
  ASSERT_TRUE(Say(kOne, Of(Kind::kEstablished, 5)).ok());
  EXPECT_EQ(sink.Last(), "established");
  const Result<HandOff> taken = clerk.TakeHandOff(CmId{5});
  ASSERT_TRUE(taken.ok());
  EXPECT_TRUE(taken->fds.empty());
  EXPECT_EQ(taken->record.transport, kTransport);
  EXPECT_EQ(NumberIn(PayloadOf<Payload>(taken->record)), 5u);
  const std::size_t before = sink.sent.size();
  clerk.Abort(CmId{5});
  EXPECT_EQ(sink.sent.size(), before) << "the queue pair has the connection";
  EXPECT_EQ(clerk.handshakes(), 0u);
}

TEST_F(ClerkTest, APassiveConnectionTakesItsSteps) {
  Meet(kOne);
  Reserve(kOne, 4, true);
  clerk.Listen(EndpointId{4}, "nd0", Ip("10.0.0.1:700"));
  EXPECT_EQ(Told().kind, Kind::kListen);
  const CmId id = Arrive();
  const InboundRequest& request = sink.requests.at(0);
  EXPECT_NE(static_cast<std::uint64_t>(id) & kInboundBit, 0u);
  EXPECT_EQ(request.adapter, "nd0");
  EXPECT_EQ(request.remote, Ip("10.0.0.2:801"));
  EXPECT_EQ(request.peer_offer, (ReadLimits{7, 6}));
  EXPECT_EQ(request.private_data, (Bytes{1, 2}));
  AcceptParams accept;
  accept.limits = {3, 4};
  accept.device_qp = 45;
  clerk.Accept(id, accept);
  EXPECT_EQ(Told().kind, Kind::kAccept);
  EXPECT_EQ(Told().number, kArrivedBit | 1);
  EXPECT_EQ(Told().queue_pair, 45u);
  ASSERT_TRUE(Say(kOne, Of(Kind::kEstablished, kArrivedBit | 1)).ok());
  EXPECT_EQ(sink.Last(), "established");
  EXPECT_EQ(NumberIn(PayloadOf<Payload>(clerk.TakeHandOff(id)->record)), kArrivedBit | 1);
}

TEST_F(ClerkTest, EachEndOfAnAttemptIsReported) {
  Meet(kOne);
  Reserve(kOne, 3, false);
  Reserve(kOne, 4, true);
  const auto with = [](Message message, StatusCode code) {
    message.status = Status(code, "why");
    message.data = {4};
    return message;
  };
  Connect(1);
  ASSERT_TRUE(Say(kOne, with(Of(Kind::kRefused, 1), kConnectionRefused)).ok());
  EXPECT_EQ(sink.Last(), "rejected CONNECTION_REFUSED");
  EXPECT_EQ(sink.bytes, Bytes{4});
  Connect(2);
  ASSERT_TRUE(Say(kOne, with(Of(Kind::kFailed, 2), kHostUnreachable)).ok());
  EXPECT_EQ(sink.Last(), "failed HOST_UNREACHABLE");
  Connect(3);
  ASSERT_TRUE(Say(kOne, Of(Kind::kReplied, 3)).ok());
  clerk.Confirm(CmId{3});
  ASSERT_TRUE(Say(kOne, with(Of(Kind::kLost, 3), kIoTimeout)).ok());
  EXPECT_EQ(sink.Last(), "lost IO_TIMEOUT");
  Connect(4);
  ASSERT_TRUE(Say(kOne, Of(Kind::kFailed, 4)).ok());
  EXPECT_EQ(sink.Last(), "failed CONNECTION_ABORTED") << "a failure without a reason is one all the same";
  const CmId id = Arrive();
  clerk.Accept(id, {});
  ASSERT_TRUE(Say(kOne, with(Of(Kind::kLost, kArrivedBit | 1), kConnectionAborted)).ok());
  EXPECT_EQ(sink.Last(), "lost CONNECTION_ABORTED");
  EXPECT_EQ(clerk.handshakes(), 0u);
  clerk.Reject(Arrive(), Detail::kPaused, {6});
  EXPECT_EQ(Told().kind, Kind::kReject);
  EXPECT_EQ(Told().data, Bytes{6});
  EXPECT_EQ(clerk.handshakes(), 0u);
}

TEST_F(ClerkTest, ReportsThatCrossAnOrderAreIgnored) {
  Meet(kOne);
  Reserve(kOne, 3, false);
  Connect(5);
  clerk.Abort(CmId{5});
  EXPECT_EQ(Told().kind, Kind::kAbort);
  const std::size_t events = sink.events.size();
  EXPECT_TRUE(Say(kOne, Of(Kind::kReplied, 5)).ok());
  clerk.ReserveFor(kOne, false, EndpointId{9}, "nd0", Ip("10.0.0.1:701"));
  clerk.Release(EndpointId{9});
  Message reserved = Of(Kind::kReserved);
  reserved.endpoint = 9;
  EXPECT_TRUE(Say(kOne, reserved).ok());
  EXPECT_EQ(sink.events.size(), events);
  EXPECT_TRUE(Say(kOne, Arrival(1)).ok()) << "its listener has closed";
  EXPECT_EQ(Told().kind, Kind::kReject);
  EXPECT_TRUE(sink.requests.empty());
}

TEST_F(ClerkTest, AClientThatReportsNonsenseIsInError) {
  const auto wrong = [this](const Message& message) { return Say(kOne, message).code() == kRemoteError; };
  EXPECT_TRUE(wrong(Of(Kind::kEstablished, 1))) << "before it said which adapter it is";
  Meet(kOne);
  Message hello = Of(Kind::kHello);
  hello.text = "nd0";
  EXPECT_TRUE(wrong(hello)) << "twice";
  EXPECT_TRUE(wrong(Of(Kind::kConnect))) << "an order";
  const std::byte garbage[7] = {};
  EXPECT_EQ(clerk.OnClientMessage(kOne, garbage).code(), kRemoteError);
  Reserve(kOne, 3, false);
  Reserve(kOne, 4, true);
  Connect(5);
  EXPECT_TRUE(wrong(Of(Kind::kEstablished, 5))) << "without a reply";
  EXPECT_TRUE(wrong(Of(Kind::kLost, 5)));
  EXPECT_TRUE(Say(kOne, Of(Kind::kReplied, 5)).ok());
  EXPECT_TRUE(wrong(Of(Kind::kReplied, 5))) << "twice";
  EXPECT_TRUE(wrong(Of(Kind::kEstablished, 5))) << "the application has not confirmed";
  Message arrived = Arrival(1);
  arrived.number = 1;
  EXPECT_TRUE(wrong(arrived)) << "a number of the broker";
  arrived = Arrival(1);
  arrived.endpoint = 3;
  EXPECT_TRUE(wrong(arrived)) << "not a listener";
  arrived = Arrival(1);
  arrived.local = Ip("10.0.0.1:701");
  EXPECT_TRUE(wrong(arrived)) << "not the port of the listener";
  arrived = Arrival(1);
  arrived.remote = Address();
  EXPECT_TRUE(wrong(arrived));
  arrived = Arrival(1);
  arrived.data.resize(57);
  EXPECT_TRUE(wrong(arrived)) << "more private data than the adapter has";
  EXPECT_TRUE(Say(kOne, Arrival(1)).ok());
  EXPECT_TRUE(wrong(Arrival(1))) << "the number is in use";
  EXPECT_TRUE(wrong(Of(Kind::kEstablished, kArrivedBit | 1))) << "the application has not accepted";
}

TEST_F(ClerkTest, AClientHasNoPartInObjectsOfAnother) {
  Meet(kOne);
  Meet(kTwo);
  Reserve(kOne, 3, false);
  Reserve(kOne, 4, true);
  Connect(5);
  const std::size_t events = sink.events.size();
  EXPECT_TRUE(Say(kTwo, Of(Kind::kReplied, 5)).ok()) << "no attempt of this client";
  clerk.ReserveFor(kOne, false, EndpointId{6}, "nd0", Ip("10.0.0.1:702"));
  Message reserved = Of(Kind::kReserved);
  reserved.endpoint = 6;
  EXPECT_TRUE(Say(kTwo, reserved).ok());
  EXPECT_EQ(sink.events.size(), events);
  EXPECT_TRUE(Say(kTwo, Arrival(1)).ok());
  EXPECT_EQ(Told(kTwo).kind, Kind::kReject) << "not its listener";
  EXPECT_TRUE(sink.requests.empty());
}

TEST_F(ClerkTest, NothingIsLeftOfAClientThatHasGone) {
  Meet(kOne);
  Reserve(kOne, 3, false);
  Reserve(kOne, 4, true);
  Connect(5);
  const CmId id = Arrive();
  clerk.OnClientGone(kOne);
  const std::size_t sent = sink.sent.size();
  clerk.Abort(CmId{5});
  clerk.Reject(id, Detail::kListenerClosed, {});
  clerk.Unlisten(EndpointId{4});
  clerk.Release(EndpointId{4});
  clerk.Release(EndpointId{3});
  EXPECT_EQ(sink.sent.size(), sent);
  EXPECT_EQ(clerk.handshakes(), 0u);
  Meet(kOne);  // A session number is not used again; the same one is new all the same.
  EXPECT_TRUE(Told().status.ok());
}

TEST_F(ClerkTest, AnOwnerWithoutADeviceGetsNoPort) {
  clerk.ReserveFor(kOne, true, EndpointId{1}, "nd0", Ip("10.0.0.1:700"));
  EXPECT_EQ(sink.Last(), "reserved DEVICE_NOT_READY");
  Connect(5);
  EXPECT_EQ(sink.Last(), "failed DEVICE_NOT_READY");
}

TEST_F(ClerkTest, AnAdapterBindsToAnAddressOfItsOwn) {
  Meet(kOne);
  clerk.ReserveFor(kOne, true, EndpointId{4}, "nd0", Ip("0.0.0.0:700"));
  EXPECT_EQ(Told().local, Ip("10.0.0.1:700"));
  clerk.ReserveFor(kOne, true, EndpointId{5}, "nd0", Ip("[::]:700"));
  EXPECT_EQ(Told().local, Ip("[fe80::1]:700"));
  EXPECT_TRUE(Say(kOne, Arrival(1)).ok());
  EXPECT_EQ(sink.Last(), "request");
  EXPECT_EQ(clerk.Resolve("nd0", Ip("fe80::9"))->IpToString(), "fe80::1");
  EXPECT_EQ(clerk.Resolve("nd0", Ip("10.0.0.1"))->IpToString(), "10.0.0.1");
  EXPECT_EQ(clerk.Resolve("nd9", Ip("10.0.0.1")).code(), kDeviceRemoved);
}

}  // namespace
}  // namespace nd::provider::networkdirect
