// SPDX-License-Identifier: Apache-2.0
#include "daemon/service/convert.h"

#include <gtest/gtest.h>

#include "daemon/service/id_text.h"

namespace nd::service {
namespace {

const Address kV4 = Address::Parse("192.0.2.7:4420").value();
const Address kV6 = Address::Parse("[2001:db8::7]:65535").value();

template <typename T>
T Decoded(const pb::ClientMessage& message) {
  Result<core::Op> op = DecodeOp(message);
  EXPECT_TRUE(op.ok()) << op.status().ToString();
  return std::get<T>(op.value());
}

TEST(Convert, AddressesRoundTrip) {
  for (const Address& address : {kV4, kV6, Address()}) {
    pb::Address message;
    ToProto(address, &message);
    EXPECT_EQ(FromProto(message), address) << address.ToString();
  }
}

TEST(Convert, MalformedAddressesStayMalformed) {
  const auto from = [](std::uint32_t family, std::string ip, std::uint32_t port) {
    pb::Address message;
    message.set_family(family);
    message.set_ip(ip);
    message.set_port(port);
    return FromProto(message);
  };
  EXPECT_TRUE(from(4, "abcd", 1).well_formed());
  EXPECT_FALSE(from(4, "abc", 1).well_formed());
  EXPECT_FALSE(from(6, std::string(15, 'a'), 1).well_formed());
  EXPECT_FALSE(from(6, std::string(17, 'a'), 1).well_formed()) << "must not be cut to fit";
  EXPECT_FALSE(from(6, std::string(60000, 'a'), 1).well_formed());
  EXPECT_FALSE(from(4, "abcd", 65536).well_formed()) << "must not wrap to port 0";
  EXPECT_FALSE(from(5, "abcd", 1).well_formed());
  EXPECT_FALSE(from(0x104, "abcd", 1).well_formed());
}

TEST(Convert, StatusesRoundTripAndUnknownOnesAreRefused) {
  const Status status(StatusCode::kConnectionRefused, "no", Detail::kBacklogFull, -7);
  pb::Status message;
  ToProto(status, &message);
  Status back;
  ASSERT_TRUE(FromProto(message, &back).ok());
  EXPECT_EQ(back.code(), status.code());
  EXPECT_EQ(back.detail(), status.detail());
  EXPECT_EQ(back.native(), -7);
  EXPECT_EQ(back.message(), "no");
  message.set_code(0x12345678);
  EXPECT_EQ(FromProto(message, &back).code(), StatusCode::kInvalidParameter);
  message.set_code(0);
  message.set_detail(18);
  EXPECT_EQ(FromProto(message, &back).code(), StatusCode::kInvalidParameter);
  message.set_detail(256 + 1);
  EXPECT_EQ(FromProto(message, &back).code(), StatusCode::kInvalidParameter);
  message.set_detail(0);
  message.set_message(std::string(1024, 'x'));
  EXPECT_TRUE(FromProto(message, &back).ok());
  message.mutable_message()->push_back('x');
  EXPECT_EQ(FromProto(message, &back).code(), StatusCode::kInvalidParameter);
}

TEST(Convert, EveryFieldOfEveryOperationArrives) {
  pb::ClientMessage m;
  pb::Connect* connect = m.mutable_connect();
  connect->set_connector(1);
  connect->set_queue_pair(2);
  ToProto(kV4, connect->mutable_remote());
  ToProto(ReadLimits{3, 4}, connect->mutable_limits());
  connect->set_private_data(std::string("\0\xff", 2));
  connect->set_private_data_length(9);
  ToProto(kV6, connect->mutable_source());
  connect->set_shared_endpoint(5);
  const auto c = Decoded<core::ConnectOp>(m);
  EXPECT_EQ(c.connector.value, 1u);
  EXPECT_EQ(c.queue_pair.value, 2u);
  EXPECT_EQ(c.remote, kV4);
  EXPECT_EQ(c.limits, (ReadLimits{3, 4}));
  EXPECT_EQ(c.private_data, (provider::Bytes{0, 255}));
  EXPECT_EQ(c.private_data_length, 9u);
  EXPECT_TRUE(c.has_source);
  EXPECT_EQ(c.source, kV6);
  EXPECT_EQ(c.shared_endpoint.value, 5u);

  pb::Accept* accept = m.mutable_accept();
  accept->set_connector(6);
  accept->set_queue_pair(7);
  ToProto(ReadLimits{8, 9}, accept->mutable_limits());
  accept->set_private_data("a");
  accept->set_private_data_length(1);
  accept->set_disconnect_event(true);
  const auto a = Decoded<core::AcceptOp>(m);
  EXPECT_TRUE(a.connector.value == 6 && a.queue_pair.value == 7 && a.limits == (ReadLimits{8, 9}) &&
              a.private_data.size() == 1 && a.private_data_length == 1 && a.disconnect_event);

  pb::CreateQueuePair* qp = m.mutable_create_queue_pair();
  qp->set_adapter(1);
  qp->set_receive_queue_depth(2);
  qp->set_initiator_queue_depth(3);
  qp->set_device_number(4);
  const auto q = Decoded<core::CreateQueuePairOp>(m);
  EXPECT_TRUE(q.adapter.value == 1 && q.receive_depth == 2 && q.initiator_depth == 3 && q.device_number == 4);

  pb::Listen* listen = m.mutable_listen();
  listen->set_listener(1);
  listen->set_backlog(2);
  ToProto(kV4, listen->mutable_local());
  listen->set_connect_events(true);
  const auto l = Decoded<core::ListenOp>(m);
  EXPECT_TRUE(l.listener.value == 1 && l.backlog == 2 && l.has_local && l.local == kV4 && l.connect_events);

  pb::Reattach* reattach = m.mutable_reattach();
  reattach->set_adapter(1);
  reattach->set_queue_pair(2);
  ToProto(kV4, reattach->mutable_local());
  ToProto(kV6, reattach->mutable_remote());
  ToProto(ReadLimits{3, 4}, reattach->mutable_limits());
  reattach->set_passive(true);
  const auto r = Decoded<core::ReattachOp>(m);
  EXPECT_TRUE(r.adapter.value == 1 && r.queue_pair.value == 2 && r.local == kV4 && r.remote == kV6 &&
              r.limits == (ReadLimits{3, 4}) && r.passive);

  pb::TransportReport* report = m.mutable_transport_report();
  report->set_connector(1);
  report->set_what(pb::TransportReport::DISCONNECT_DONE);
  report->set_reason(4);
  ToProto(Status(StatusCode::kIoTimeout), report->mutable_status());
  const auto t = Decoded<core::TransportReportOp>(m);
  EXPECT_TRUE(t.connector.value == 1 && t.what == core::TransportReportOp::What::kDisconnectDone &&
              t.reason == DisconnectReason::kTransportRetryExceeded && t.status == StatusCode::kIoTimeout);
}

TEST(Convert, SmallOperationsKeepTheirKindAndHandle) {
  const auto check = [](auto set, auto get, std::size_t index) {
    pb::ClientMessage m;
    set(m);
    Result<core::Op> op = DecodeOp(m);
    ASSERT_TRUE(op.ok());
    EXPECT_EQ(op->index(), index);
    EXPECT_EQ(get(op.value()), 77u);
  };
#define ND_CHECK_OP(message, type, proto_field, field)                              \
  check([](pb::ClientMessage& m) { m.mutable_##message()->set_##proto_field(77); }, \
        [](const core::Op& op) { return std::get<core::type>(op).field.value; },    \
        core::Op(core::type{}).index())
  ND_CHECK_OP(resolve_address, ResolveAddressOp, adapter, adapter);
  ND_CHECK_OP(check_address, CheckAddressOp, adapter, adapter);
  ND_CHECK_OP(create_connector, CreateConnectorOp, adapter, adapter);
  ND_CHECK_OP(create_listener, CreateListenerOp, adapter, adapter);
  ND_CHECK_OP(create_shared_endpoint, CreateSharedEndpointOp, adapter, adapter);
  ND_CHECK_OP(close, CloseOp, handle, handle);
  ND_CHECK_OP(bind, BindOp, handle, handle);
  ND_CHECK_OP(complete_connect, CompleteConnectOp, connector, connector);
  ND_CHECK_OP(reject, RejectOp, connector, connector);
  ND_CHECK_OP(get_read_limits, GetReadLimitsOp, connector, connector);
  ND_CHECK_OP(get_private_data, GetPrivateDataOp, connector, connector);
  ND_CHECK_OP(get_local_address, GetLocalAddressOp, handle, handle);
  ND_CHECK_OP(get_peer_address, GetPeerAddressOp, connector, connector);
  ND_CHECK_OP(notify_disconnect, NotifyDisconnectOp, connector, connector);
  ND_CHECK_OP(disconnect, DisconnectOp, connector, connector);
  ND_CHECK_OP(cancel, CancelOp, handle, handle);
  ND_CHECK_OP(control_connect_events, ControlConnectEventsOp, listener, listener);
  ND_CHECK_OP(get_connection_request, GetConnectionRequestOp, connector, connector);
#undef ND_CHECK_OP
}

TEST(Convert, ImpossibleValuesAreRefused) {
  pb::ClientMessage m;
  EXPECT_EQ(DecodeOp(m).code(), StatusCode::kNotSupported);
  m.mutable_hello();
  EXPECT_EQ(DecodeOp(m).code(), StatusCode::kInvalidDeviceRequest);
  m.mutable_transport_report();
  EXPECT_EQ(DecodeOp(m).code(), StatusCode::kInvalidParameter);
  m.mutable_transport_report()->set_what(static_cast<pb::TransportReport::What>(77));
  EXPECT_EQ(DecodeOp(m).code(), StatusCode::kInvalidParameter);
  m.mutable_transport_report()->set_what(pb::TransportReport::PEER_CLOSED);
  EXPECT_TRUE(DecodeOp(m).ok());
  m.mutable_transport_report()->set_reason(256);
  EXPECT_EQ(DecodeOp(m).code(), StatusCode::kInvalidParameter);
}

TEST(Convert, HelloIsCheckedInEveryField) {
  pb::ClientMessage m;
  EXPECT_EQ(DecodeHello(m).code(), StatusCode::kInvalidDeviceRequest);
  pb::Hello* hello = m.mutable_hello();
  hello->set_token(std::string(15, 'x'));
  EXPECT_EQ(DecodeHello(m).code(), StatusCode::kAccessDenied);
  hello->set_token(std::string(16, 'x'));
  EXPECT_EQ(DecodeHello(m).code(), StatusCode::kNotSupported) << "versions 0 to 0";
  hello->set_min_version(2);
  hello->set_max_version(9);
  EXPECT_EQ(DecodeHello(m).code(), StatusCode::kNotSupported);
  hello->set_min_version(1);
  EXPECT_TRUE(DecodeHello(m).ok());
  for (const char* bad : {"a b", "a\nb", "\xc3\xa4", "a/b"}) {
    hello->set_application(bad);
    EXPECT_EQ(DecodeHello(m).code(), StatusCode::kInvalidParameter) << bad;
  }
  hello->set_application(std::string(65, 'a'));
  EXPECT_EQ(DecodeHello(m).code(), StatusCode::kInvalidParameter);
  hello->set_application(std::string(64, 'a'));
  EXPECT_EQ(DecodeHello(m)->application, std::string(64, 'a'));
}

TEST(Convert, CompletionsCarryEverything) {
  core::Complete completion;
  completion.op_id = 5;
  completion.status = Status(StatusCode::kIoTimeout, "why", Detail::kWireTimeout, 110);
  completion.reply.handle = core::Handle::Make(1, 2, 3);
  completion.reply.address = kV4;
  completion.reply.limits = {1, 2};
  completion.reply.private_data = {0, 255};
  completion.reply.hand_off = 8;
  completion.reply.counter_slot = 9;
  completion.reply.adapters.emplace_back().name = "soft0";
  completion.reply.adapters.back().addresses = {kV4, kV6};
  const pb::Completion m = Encode(completion).completion();
  EXPECT_EQ(m.op_id(), 5u);
  EXPECT_EQ(m.status().code(), 0xC00000B5);
  EXPECT_EQ(m.status().detail(), 10u);
  EXPECT_EQ(m.status().native(), 110);
  EXPECT_EQ(m.status().message(), "why");
  EXPECT_EQ(m.handle(), completion.reply.handle.value);
  EXPECT_EQ(FromProto(m.address()), kV4);
  EXPECT_EQ(FromProto(m.limits()), (ReadLimits{1, 2}));
  EXPECT_EQ(m.private_data(), std::string("\0\xff", 2));
  EXPECT_EQ(m.hand_off(), 8u);
  EXPECT_EQ(m.counter_slot(), 9u);
  EXPECT_EQ(m.adapters(0).name(), "soft0");
  EXPECT_EQ(FromProto(m.adapters(0).addresses(1)), kV6);
}

TEST(Convert, EventsCarryTheirEnumerators) {
  using Command = core::SendTransportCommand;
  Command command;
  command.connector = {7};
  command.what = Command::What::kDrop;
  command.reason = DisconnectReason::kLocalAdministrator;
  command.timeout_ms = 5;
  const pb::TransportCommand c = Encode(command).transport_command();
  EXPECT_TRUE(c.connector() == 7 && c.what() == pb::TransportCommand::DROP && c.reason() == 5 &&
              c.timeout_ms() == 5);
  EXPECT_EQ(Encode(Command{}).transport_command().what(), pb::TransportCommand::DISCONNECT);
  core::SendAdapterEvent event;
  event.what = core::SendAdapterEvent::What::kEnabled;
  EXPECT_EQ(Encode(event).adapter_event().what(), pb::AdapterEvent::ENABLED);
  EXPECT_EQ(Encode(core::SendDisconnectEvent{{}, {3}, DisconnectReason::kPeerProcessDied})
                .disconnect_event()
                .reason(),
            2u);
  EXPECT_EQ(Encode(core::SendConnectEvent{{}, {3}, {4}}).connect_event().connector(), 4u);
}

TEST(IdText, RoundTripsAndRefusesEverythingElse) {
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{0x3f2a000001000001}, ~std::uint64_t{0}}) {
    EXPECT_EQ(ParseId('c', IdText('c', value)), value);
  }
  for (const char* bad : {"", "c", "c-", "l-1", "c-g", "c-1 ", "c-12345678901234567", "c--1", "1"}) {
    EXPECT_FALSE(ParseId('c', bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace nd::service
