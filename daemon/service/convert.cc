// SPDX-License-Identifier: Apache-2.0
// The border between the wire's types and ours: nothing of protobuf passes it.
#include "daemon/service/convert.h"

#include <algorithm>

namespace nd::service {
namespace {

constexpr std::size_t kMaxSentence = 1024;

provider::Bytes ToBytes(const std::string& text) {
  return {text.begin(), text.end()};
}

Status Wrong(const char* what) {
  return {StatusCode::kInvalidParameter, what};
}

Result<core::Op> DecodeConnect(const pb::Connect& m) {
  core::ConnectOp op;
  op.connector = {m.connector()};
  op.queue_pair = {m.queue_pair()};
  op.remote = FromProto(m.remote());
  op.limits = FromProto(m.limits());
  op.private_data = ToBytes(m.private_data());
  op.private_data_length = m.private_data_length();
  op.has_source = m.has_source();
  if (op.has_source) op.source = FromProto(m.source());
  op.shared_endpoint = {m.shared_endpoint()};
  return core::Op(std::move(op));
}

Result<core::Op> DecodeReport(const pb::TransportReport& m) {
  core::TransportReportOp op;
  op.connector = {m.connector()};
  switch (m.what()) {
    case pb::TransportReport::PEER_CLOSED:
      op.what = core::TransportReportOp::What::kPeerClosed;
      break;
    case pb::TransportReport::DISCONNECT_DONE:
      op.what = core::TransportReportOp::What::kDisconnectDone;
      break;
    case pb::TransportReport::PREPARED:
      op.what = core::TransportReportOp::What::kPrepared;
      break;
    default:
      return Wrong("a transport report says nothing that this broker knows");
  }
  if (m.reason() > static_cast<std::uint32_t>(DisconnectReason::kEstablishmentFailed)) {
    return Wrong("a transport report has a reason that does not exist");
  }
  op.reason = static_cast<DisconnectReason>(m.reason());
  if (Status bad = FromProto(m.status(), &op.status); !bad.ok()) return bad;
  return core::Op(std::move(op));
}

}  // namespace

Address FromProto(const pb::Address& message) {
  using Family = Address::Family;
  Family family = message.family() == 4   ? Family::kIpv4
                  : message.family() == 6 ? Family::kIpv6
                  : message.family() == 0 ? Family::kUnspecified
                                          : Family::kOther;
  // What FromParts would cut to fit must not become well-formed by that.
  if (message.ip().size() > 16 || message.port() > 65535) family = Family::kOther;
  return Address::FromParts(family, std::string_view(message.ip()).substr(0, 16),
                            static_cast<std::uint16_t>(message.port() & 0xFFFF));
}

void ToProto(const Address& address, pb::Address* out) {
  out->set_family(static_cast<std::uint32_t>(address.family()));
  out->set_ip(std::string(address.ip()));
  out->set_port(address.port());
}

Status FromProto(const pb::Status& message, Status* out) {
  const auto code = static_cast<StatusCode>(message.code());
  if (!IsKnown(code)) return Wrong("a status has a code that does not exist");
  if (message.detail() > static_cast<std::uint32_t>(Detail::kStaleConnection)) {
    return Wrong("a status has a detail that does not exist");
  }
  if (message.message().size() > kMaxSentence)
    return Wrong("a status has a sentence of more than 1024 bytes");
  *out = Status(code, message.message(), static_cast<Detail>(message.detail()), message.native());
  return Status::Ok();
}

void ToProto(const Status& status, pb::Status* out) {
  out->set_code(static_cast<std::uint32_t>(status.code()));
  out->set_detail(static_cast<std::uint32_t>(status.detail()));
  out->set_native(status.native());
  if (!status.message().empty()) out->set_message(status.message());
}

ReadLimits FromProto(const pb::ReadLimits& message) {
  return {message.inbound(), message.outbound()};
}

void ToProto(const ReadLimits& limits, pb::ReadLimits* out) {
  out->set_inbound(limits.inbound);
  out->set_outbound(limits.outbound);
}

void ToProto(const AdapterInfo& info, pb::AdapterInfo* out) {
  out->set_name(info.name);
  out->set_provider(info.provider);
  out->set_adapter_id(info.adapter_id);
  out->set_vendor_id(info.vendor_id);
  out->set_device_id(info.device_id);
  out->set_technology(static_cast<std::uint32_t>(info.technology));
  out->set_flags(info.flags);
  out->set_max_registration_size(info.max_registration_size);
  out->set_max_window_size(info.max_window_size);
  out->set_max_initiator_sge(info.max_initiator_sge);
  out->set_max_receive_sge(info.max_receive_sge);
  out->set_max_read_sge(info.max_read_sge);
  out->set_max_transfer_length(info.max_transfer_length);
  out->set_max_inline_data_size(info.max_inline_data_size);
  out->set_max_inbound_read_limit(info.max_inbound_read_limit);
  out->set_max_outbound_read_limit(info.max_outbound_read_limit);
  out->set_max_receive_queue_depth(info.max_receive_queue_depth);
  out->set_max_initiator_queue_depth(info.max_initiator_queue_depth);
  out->set_max_shared_receive_queue_depth(info.max_shared_receive_queue_depth);
  out->set_max_completion_queue_depth(info.max_completion_queue_depth);
  out->set_inline_request_threshold(info.inline_request_threshold);
  out->set_large_request_threshold(info.large_request_threshold);
  out->set_max_caller_data(info.max_caller_data);
  out->set_max_callee_data(info.max_callee_data);
  for (const Address& address : info.addresses) ToProto(address, out->add_addresses());
}

Result<core::Op> DecodeOp(const pb::ClientMessage& m) {
  using Case = pb::ClientMessage;
  using core::Op;
  switch (m.op_case()) {
    case Case::kHello:
      return Status(StatusCode::kInvalidDeviceRequest,
                    "Hello is the first message of a stream and only there");
    case Case::kListAdapters:
      return Op(core::ListAdaptersOp{});
    case Case::kOpenAdapter:
      return Op(core::OpenAdapterOp{m.open_adapter().name(), FromProto(m.open_adapter().local())});
    case Case::kResolveAddress:
      return Op(
          core::ResolveAddressOp{{m.resolve_address().adapter()}, FromProto(m.resolve_address().remote())});
    case Case::kCheckAddress:
      return Op(core::CheckAddressOp{{m.check_address().adapter()}, FromProto(m.check_address().local())});
    case Case::kCreateQueuePair: {
      const pb::CreateQueuePair& op = m.create_queue_pair();
      return Op(core::CreateQueuePairOp{
          {op.adapter()}, op.receive_queue_depth(), op.initiator_queue_depth(), op.device_number()});
    }
    case Case::kCreateConnector:
      return Op(core::CreateConnectorOp{{m.create_connector().adapter()}});
    case Case::kCreateListener:
      return Op(core::CreateListenerOp{{m.create_listener().adapter()}});
    case Case::kCreateSharedEndpoint:
      return Op(core::CreateSharedEndpointOp{{m.create_shared_endpoint().adapter()},
                                             FromProto(m.create_shared_endpoint().local())});
    case Case::kClose:
      return Op(core::CloseOp{{m.close().handle()}, m.close().ndk()});
    case Case::kBind:
      return Op(core::BindOp{{m.bind().handle()}, FromProto(m.bind().local())});
    case Case::kConnect:
      return DecodeConnect(m.connect());
    case Case::kCompleteConnect:
      return Op(core::CompleteConnectOp{{m.complete_connect().connector()},
                                        m.complete_connect().disconnect_event()});
    case Case::kAccept: {
      const pb::Accept& op = m.accept();
      return Op(core::AcceptOp{{op.connector()},
                               {op.queue_pair()},
                               FromProto(op.limits()),
                               ToBytes(op.private_data()),
                               op.private_data_length(),
                               op.disconnect_event()});
    }
    case Case::kReject:
      return Op(core::RejectOp{
          {m.reject().connector()}, ToBytes(m.reject().private_data()), m.reject().private_data_length()});
    case Case::kGetReadLimits:
      return Op(core::GetReadLimitsOp{{m.get_read_limits().connector()}});
    case Case::kGetPrivateData:
      return Op(core::GetPrivateDataOp{{m.get_private_data().connector()}});
    case Case::kGetLocalAddress:
      return Op(core::GetLocalAddressOp{{m.get_local_address().handle()}});
    case Case::kGetPeerAddress:
      return Op(core::GetPeerAddressOp{{m.get_peer_address().connector()}});
    case Case::kNotifyDisconnect:
      return Op(core::NotifyDisconnectOp{{m.notify_disconnect().connector()}});
    case Case::kDisconnect:
      return Op(core::DisconnectOp{{m.disconnect().connector()}});
    case Case::kCancel:
      return Op(core::CancelOp{{m.cancel().handle()}});
    case Case::kListen: {
      const pb::Listen& op = m.listen();
      return Op(core::ListenOp{
          {op.listener()}, op.backlog(), op.has_local(), FromProto(op.local()), op.connect_events()});
    }
    case Case::kControlConnectEvents:
      return Op(core::ControlConnectEventsOp{{m.control_connect_events().listener()},
                                             m.control_connect_events().pause()});
    case Case::kGetConnectionRequest:
      return Op(core::GetConnectionRequestOp{{m.get_connection_request().listener()},
                                             {m.get_connection_request().connector()}});
    case Case::kTransportReport:
      return DecodeReport(m.transport_report());
    case Case::kReattach: {
      const pb::Reattach& op = m.reattach();
      return Op(core::ReattachOp{{op.adapter()},
                                 {op.queue_pair()},
                                 FromProto(op.local()),
                                 FromProto(op.remote()),
                                 FromProto(op.limits()),
                                 op.passive()});
    }
    case Case::OP_NOT_SET:
      break;
  }
  return Status(
      StatusCode::kNotSupported,
      "the message has no operation that protocol version 1 knows; is the client newer than the broker?");
}

Result<HelloRequest> DecodeHello(const pb::ClientMessage& message) {
  if (!message.has_hello()) {
    return Status(StatusCode::kInvalidDeviceRequest, "the first message of a session must be Hello");
  }
  const pb::Hello& hello = message.hello();
  if (hello.token().size() != 16) {
    return Status(StatusCode::kAccessDenied,
                  "the token must be the 16 bytes that the fd lane delivered, not " +
                      std::to_string(hello.token().size()));
  }
  if (hello.min_version() > kProtocolVersion || hello.max_version() < kProtocolVersion) {
    return Status(StatusCode::kNotSupported, "the client speaks protocol versions " +
                                                 std::to_string(hello.min_version()) + " to " +
                                                 std::to_string(hello.max_version()) + ", this broker only " +
                                                 std::to_string(kProtocolVersion));
  }
  const std::string& name = hello.application();
  const bool good = name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
                      return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                             c == '.' || c == '_' || c == '-';
                    });
  if (!good) return Wrong("the application's name may only have 1 to 64 of A-Z a-z 0-9 . _ -");
  return HelloRequest{hello.token(), name};
}

pb::ServerMessage Encode(const core::Complete& completion) {
  pb::ServerMessage out;
  pb::Completion* m = out.mutable_completion();
  const core::Reply& reply = completion.reply;
  m->set_op_id(completion.op_id);
  ToProto(completion.status, m->mutable_status());
  m->set_handle(reply.handle.value);
  if (reply.address.family() != Address::Family::kUnspecified) ToProto(reply.address, m->mutable_address());
  if (reply.peer.family() != Address::Family::kUnspecified) ToProto(reply.peer, m->mutable_peer_address());
  if (reply.limits != ReadLimits{}) ToProto(reply.limits, m->mutable_limits());
  m->set_private_data(reply.private_data.data(), reply.private_data.size());
  m->set_hand_off(reply.hand_off);
  m->set_counter_slot(reply.counter_slot);
  for (const AdapterInfo& info : reply.adapters) ToProto(info, m->add_adapters());
  return out;
}

pb::ServerMessage Encode(const core::SendConnectEvent& event) {
  pb::ServerMessage out;
  out.mutable_connect_event()->set_listener(event.listener.value);
  out.mutable_connect_event()->set_connector(event.connector.value);
  return out;
}

pb::ServerMessage Encode(const core::SendDisconnectEvent& event) {
  pb::ServerMessage out;
  out.mutable_disconnect_event()->set_connector(event.connector.value);
  out.mutable_disconnect_event()->set_reason(static_cast<std::uint32_t>(event.reason));
  return out;
}

pb::ServerMessage Encode(const core::SendTransportCommand& command) {
  pb::ServerMessage out;
  pb::TransportCommand* m = out.mutable_transport_command();
  m->set_connector(command.connector.value);
  switch (command.what) {
    case core::SendTransportCommand::What::kDisconnect:
      m->set_what(pb::TransportCommand::DISCONNECT);
      break;
    case core::SendTransportCommand::What::kDrop:
      m->set_what(pb::TransportCommand::DROP);
      break;
    case core::SendTransportCommand::What::kPrepare:
      m->set_what(pb::TransportCommand::PREPARE);
      m->set_attributes(command.attributes.data(), command.attributes.size());
      break;
  }
  m->set_reason(static_cast<std::uint32_t>(command.reason));
  m->set_timeout_ms(command.timeout_ms);
  return out;
}

pb::ServerMessage Encode(const core::SendAdapterEvent& event) {
  pb::ServerMessage out;
  pb::AdapterEvent* m = out.mutable_adapter_event();
  m->set_adapter(event.adapter.value);
  switch (event.what) {
    case core::SendAdapterEvent::What::kRemoved:
      m->set_what(pb::AdapterEvent::REMOVED);
      break;
    case core::SendAdapterEvent::What::kDisabled:
      m->set_what(pb::AdapterEvent::DISABLED);
      break;
    case core::SendAdapterEvent::What::kEnabled:
      m->set_what(pb::AdapterEvent::ENABLED);
      break;
  }
  return out;
}

pb::ServerMessage EncodeAnswer(core::OpId op_id, const Status& status) {
  return Encode(core::Complete{{}, op_id, status, {}});
}

}  // namespace nd::service
