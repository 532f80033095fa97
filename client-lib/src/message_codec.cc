// SPDX-License-Identifier: Apache-2.0
#include "client-lib/src/message_codec.h"

#include <string>

namespace nd::client {
namespace {

void Put(const Address& from, pb::Address* to) {
  to->set_family(static_cast<std::uint32_t>(from.family()));
  to->set_ip(std::string(from.ip()));
  to->set_port(from.port());
}

Address Get(const pb::Address& from) {
  using Family = Address::Family;
  const Family family = from.family() == 4   ? Family::kIpv4
                        : from.family() == 6 ? Family::kIpv6
                        : from.family() == 0 ? Family::kUnspecified
                                             : Family::kOther;
  return Address::FromParts(family, from.ip(), static_cast<std::uint16_t>(from.port()));
}

void Put(const ReadLimits& from, pb::ReadLimits* to) {
  to->set_inbound(from.inbound);
  to->set_outbound(from.outbound);
}

Status Get(const pb::Status& from) {
  const auto code = static_cast<StatusCode>(from.code());
  return Status(IsKnown(code) ? code : StatusCode::kInternalError, from.message(),
                static_cast<Detail>(from.detail()), from.native());
}

DisconnectReason GetReason(std::uint32_t value) {
  return value <= static_cast<std::uint32_t>(DisconnectReason::kEstablishmentFailed)
             ? static_cast<DisconnectReason>(value)
             : DisconnectReason::kUnknown;
}

std::string Bytes(const std::vector<std::byte>& data) {
  return {reinterpret_cast<const char*>(data.data()), data.size()};
}

AdapterInfo Get(const pb::AdapterInfo& from) {
  AdapterInfo to;
  to.name = from.name();
  to.provider = from.provider();
  to.adapter_id = from.adapter_id();
  to.vendor_id = from.vendor_id();
  to.device_id = from.device_id();
  to.technology = from.technology() <= static_cast<std::uint32_t>(RdmaTechnology::kRoceV2)
                      ? static_cast<RdmaTechnology>(from.technology())
                      : RdmaTechnology::kUndefined;
  to.flags = from.flags();
  to.max_registration_size = from.max_registration_size();
  to.max_window_size = from.max_window_size();
  to.max_initiator_sge = from.max_initiator_sge();
  to.max_receive_sge = from.max_receive_sge();
  to.max_read_sge = from.max_read_sge();
  to.max_transfer_length = from.max_transfer_length();
  to.max_inline_data_size = from.max_inline_data_size();
  to.max_inbound_read_limit = from.max_inbound_read_limit();
  to.max_outbound_read_limit = from.max_outbound_read_limit();
  to.max_receive_queue_depth = from.max_receive_queue_depth();
  to.max_initiator_queue_depth = from.max_initiator_queue_depth();
  to.max_shared_receive_queue_depth = from.max_shared_receive_queue_depth();
  to.max_completion_queue_depth = from.max_completion_queue_depth();
  to.inline_request_threshold = from.inline_request_threshold();
  to.large_request_threshold = from.large_request_threshold();
  to.max_caller_data = from.max_caller_data();
  to.max_callee_data = from.max_callee_data();
  for (const pb::Address& address : from.addresses()) to.addresses.push_back(Get(address));
  return to;
}

Reply Get(const pb::Completion& from) {
  Reply to;
  to.id = from.op_id();
  to.status = Get(from.status());
  to.handle = from.handle();
  if (from.has_address()) to.address = Get(from.address());
  if (from.has_peer_address()) to.peer = Get(from.peer_address());
  to.limits = {from.limits().inbound(), from.limits().outbound()};
  const auto* data = reinterpret_cast<const std::byte*>(from.private_data().data());
  to.private_data.assign(data, data + from.private_data().size());
  to.hand_off = from.hand_off();
  for (const pb::AdapterInfo& adapter : from.adapters()) to.adapters.push_back(Get(adapter));
  to.version = from.version();
  to.boot_epoch = from.boot_epoch();
  to.counter_slot = from.counter_slot();
  to.broker_version = from.broker_version();
  return to;
}

template <typename Message>
void PutData(const Op& op, Message* to) {
  to->set_private_data(Bytes(op.data));
  to->set_private_data_length(static_cast<std::uint32_t>(op.data.size()));
}

void PutConnect(const Op& op, pb::Connect* to) {
  to->set_connector(op.handle);
  to->set_queue_pair(op.queue_pair);
  if (op.remote) Put(*op.remote, to->mutable_remote());
  Put(op.limits, to->mutable_limits());
  PutData(op, to);
  if (op.local) Put(*op.local, to->mutable_source());
  to->set_shared_endpoint(op.shared_endpoint);
}

void PutAccept(const Op& op, pb::Accept* to) {
  to->set_connector(op.handle);
  to->set_queue_pair(op.queue_pair);
  Put(op.limits, to->mutable_limits());
  PutData(op, to);
  to->set_disconnect_event(op.events);
}

void PutListen(const Op& op, pb::Listen* to) {
  to->set_listener(op.handle);
  to->set_backlog(op.backlog);
  if (op.local) Put(*op.local, to->mutable_local());
  to->set_connect_events(op.events);
}

void PutReport(const Op& op, pb::TransportReport* to) {
  to->set_connector(op.handle);
  switch (op.what) {
    case ReportWhat::kPeerClosed:
      to->set_what(pb::TransportReport::PEER_CLOSED);
      break;
    case ReportWhat::kDisconnectDone:
      to->set_what(pb::TransportReport::DISCONNECT_DONE);
      break;
    case ReportWhat::kPrepared:
      to->set_what(pb::TransportReport::PREPARED);
      break;
  }
  to->set_reason(static_cast<std::uint32_t>(op.reason));
  to->mutable_status()->set_code(static_cast<std::uint32_t>(op.status.code()));
  to->mutable_status()->set_detail(static_cast<std::uint32_t>(op.status.detail()));
  to->mutable_status()->set_native(op.status.native());
  to->mutable_status()->set_message(op.status.message());
}

void PutReattach(const Op& op, pb::Reattach* to) {
  to->set_adapter(op.handle);
  to->set_queue_pair(op.queue_pair);
  if (op.local) Put(*op.local, to->mutable_local());
  if (op.remote) Put(*op.remote, to->mutable_remote());
  Put(op.limits, to->mutable_limits());
  to->set_passive(op.passive);
}

void PutQueuePair(const Op& op, pb::CreateQueuePair* to) {
  to->set_adapter(op.handle);
  to->set_receive_queue_depth(op.receive_depth);
  to->set_initiator_queue_depth(op.initiator_depth);
  to->set_device_number(op.device_number);
}

}  // namespace

void ToProto(const Op& op, pb::ClientMessage* to) {
  to->Clear();
  to->set_op_id(op.id);
  const auto local = [&op](auto* message) {
    if (op.local) Put(*op.local, message->mutable_local());
  };
  switch (op.kind) {
    case OpKind::kHello:
      to->mutable_hello()->set_token(op.token);
      to->mutable_hello()->set_min_version(1);
      to->mutable_hello()->set_max_version(1);
      to->mutable_hello()->set_application(op.text);
      return;
    case OpKind::kListAdapters:
      to->mutable_list_adapters();
      return;
    case OpKind::kOpenAdapter:
      to->mutable_open_adapter()->set_name(op.text);
      return local(to->mutable_open_adapter());
    case OpKind::kResolveAddress:
      to->mutable_resolve_address()->set_adapter(op.handle);
      if (op.remote) Put(*op.remote, to->mutable_resolve_address()->mutable_remote());
      return;
    case OpKind::kCheckAddress:
      to->mutable_check_address()->set_adapter(op.handle);
      return local(to->mutable_check_address());
    case OpKind::kCreateQueuePair:
      return PutQueuePair(op, to->mutable_create_queue_pair());
    case OpKind::kCreateConnector:
      return to->mutable_create_connector()->set_adapter(op.handle);
    case OpKind::kCreateListener:
      return to->mutable_create_listener()->set_adapter(op.handle);
    case OpKind::kCreateSharedEndpoint:
      to->mutable_create_shared_endpoint()->set_adapter(op.handle);
      return local(to->mutable_create_shared_endpoint());
    case OpKind::kClose:
      to->mutable_close()->set_handle(op.handle);
      return to->mutable_close()->set_ndk(op.ndk);
    case OpKind::kBind:
      to->mutable_bind()->set_handle(op.handle);
      return local(to->mutable_bind());
    case OpKind::kConnect:
      return PutConnect(op, to->mutable_connect());
    case OpKind::kCompleteConnect:
      to->mutable_complete_connect()->set_connector(op.handle);
      return to->mutable_complete_connect()->set_disconnect_event(op.events);
    case OpKind::kAccept:
      return PutAccept(op, to->mutable_accept());
    case OpKind::kReject:
      to->mutable_reject()->set_connector(op.handle);
      return PutData(op, to->mutable_reject());
    case OpKind::kGetReadLimits:
      return to->mutable_get_read_limits()->set_connector(op.handle);
    case OpKind::kGetPrivateData:
      return to->mutable_get_private_data()->set_connector(op.handle);
    case OpKind::kGetLocalAddress:
      return to->mutable_get_local_address()->set_handle(op.handle);
    case OpKind::kGetPeerAddress:
      return to->mutable_get_peer_address()->set_connector(op.handle);
    case OpKind::kNotifyDisconnect:
      return to->mutable_notify_disconnect()->set_connector(op.handle);
    case OpKind::kDisconnect:
      return to->mutable_disconnect()->set_connector(op.handle);
    case OpKind::kCancel:
      return to->mutable_cancel()->set_handle(op.handle);
    case OpKind::kListen:
      return PutListen(op, to->mutable_listen());
    case OpKind::kControlConnectEvents:
      to->mutable_control_connect_events()->set_listener(op.handle);
      return to->mutable_control_connect_events()->set_pause(op.pause);
    case OpKind::kGetConnectionRequest:
      to->mutable_get_connection_request()->set_listener(op.handle);
      return to->mutable_get_connection_request()->set_connector(op.connector);
    case OpKind::kTransportReport:
      return PutReport(op, to->mutable_transport_report());
    case OpKind::kReattach:
      return PutReattach(op, to->mutable_reattach());
  }
}

std::optional<Incoming> FromProto(const pb::ServerMessage& from) {
  switch (from.kind_case()) {
    case pb::ServerMessage::kCompletion:
      return Get(from.completion());
    case pb::ServerMessage::kConnectEvent:
      return ConnectEvent{from.connect_event().listener(), from.connect_event().connector()};
    case pb::ServerMessage::kDisconnectEvent:
      return DisconnectEvent{from.disconnect_event().connector(),
                             GetReason(from.disconnect_event().reason())};
    case pb::ServerMessage::kTransportCommand: {
      const pb::TransportCommand& command = from.transport_command();
      TransportCommand to{command.connector(),
                          TransportCommand::What::kDisconnect,
                          GetReason(command.reason()),
                          command.timeout_ms(),
                          {}};
      switch (command.what()) {
        case pb::TransportCommand::DISCONNECT:
          break;
        case pb::TransportCommand::DROP:
          to.what = TransportCommand::What::kDrop;
          break;
        case pb::TransportCommand::PREPARE:
          to.what = TransportCommand::What::kPrepare;
          to.attributes.assign(command.attributes().begin(), command.attributes().end());
          break;
        default:
          return std::nullopt;
      }
      return to;
    }
    case pb::ServerMessage::kAdapterEvent:
      if (from.adapter_event().what() == pb::AdapterEvent::ENABLED) return std::nullopt;
      return AdapterGone{};
    default:
      return std::nullopt;
  }
}

Status SessionEnded(StatusCode code, const std::string& why) {
  const std::string text =
      why.empty() ? "the broker ended the session" : "the broker ended the session: " + why;
  switch (code) {
    case StatusCode::kAccessDenied:
      return {code, text, Detail::kPolicy};
    case StatusCode::kInsufficientResources:
      return {code, text, Detail::kQuota};
    default:
      return {StatusCode::kDeviceRemoved, text, Detail::kBrokerUnreachable};
  }
}

}  // namespace nd::client
