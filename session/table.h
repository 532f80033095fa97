// SPDX-License-Identifier: Apache-2.0
// The fields of each message: number, name in the .proto files, member. The codec is these tables and the
// types of the members; see TypeOf() for the type that each member has on the wire.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "session/events.h"
#include "session/operations.h"

namespace nd::session {

template <auto... Path>
struct Field {
  std::uint32_t number;
  const char* name;
  template <typename M>
  constexpr auto& In(M& message) const {
    return (message.*....*Path);
  }
};

// Specialised below for each message: `static constexpr std::tuple kFields`, in the order of the numbers.
template <typename M>
struct Table {};

// Address and Status have no public members; these structs have the fields that they have on the wire. They
// borrow bytes and text, from the object or from the message, and live no longer than it.
struct AddressParts {
  std::uint32_t family = 0;
  std::span<const std::uint8_t> ip;
  std::uint32_t port = 0;
};
struct StatusParts {
  std::uint32_t code = 0, detail = 0;
  std::int32_t native = 0;
  std::string_view message;
};
AddressParts Split(const Address& address);
StatusParts Split(const Status& status);
// Never fails: an impossible number or IP gives a malformed Address, or a Status with an undefined code or
// detail, which the caller checks.
Address Join(const AddressParts& parts);
Status Join(const StatusParts& parts);

template <typename T>
concept HasTable = requires {
  Table<T>::kFields;
};
template <typename T>
concept HasParts = requires(const T& value) {
  Split(value);
};

template <>
struct Table<AddressParts> {
  static constexpr std::tuple kFields{Field<&AddressParts::family>{1, "family"},
                                      Field<&AddressParts::ip>{2, "ip"},
                                      Field<&AddressParts::port>{3, "port"}};
};
template <>
struct Table<StatusParts> {
  static constexpr std::tuple kFields{
      Field<&StatusParts::code>{1, "code"}, Field<&StatusParts::detail>{2, "detail"},
      Field<&StatusParts::native>{3, "native"}, Field<&StatusParts::message>{4, "message"}};
};
template <>
struct Table<ReadLimits> {
  static constexpr std::tuple kFields{Field<&ReadLimits::inbound>{1, "inbound"},
                                      Field<&ReadLimits::outbound>{2, "outbound"}};
};
template <>
struct Table<AdapterInfo> {
  using I = AdapterInfo;
  static constexpr std::tuple kFields{
      Field<&I::name>{1, "name"},
      Field<&I::provider>{2, "provider"},
      Field<&I::adapter_id>{3, "adapter_id"},
      Field<&I::vendor_id>{4, "vendor_id"},
      Field<&I::device_id>{5, "device_id"},
      Field<&I::technology>{6, "technology"},
      Field<&I::flags>{7, "flags"},
      Field<&I::max_registration_size>{8, "max_registration_size"},
      Field<&I::max_window_size>{9, "max_window_size"},
      Field<&I::max_initiator_sge>{10, "max_initiator_sge"},
      Field<&I::max_receive_sge>{11, "max_receive_sge"},
      Field<&I::max_read_sge>{12, "max_read_sge"},
      Field<&I::max_transfer_length>{13, "max_transfer_length"},
      Field<&I::max_inline_data_size>{14, "max_inline_data_size"},
      Field<&I::max_inbound_read_limit>{15, "max_inbound_read_limit"},
      Field<&I::max_outbound_read_limit>{16, "max_outbound_read_limit"},
      Field<&I::max_receive_queue_depth>{17, "max_receive_queue_depth"},
      Field<&I::max_initiator_queue_depth>{18, "max_initiator_queue_depth"},
      Field<&I::max_shared_receive_queue_depth>{19, "max_shared_receive_queue_depth"},
      Field<&I::max_completion_queue_depth>{20, "max_completion_queue_depth"},
      Field<&I::inline_request_threshold>{21, "inline_request_threshold"},
      Field<&I::large_request_threshold>{22, "large_request_threshold"},
      Field<&I::max_caller_data>{23, "max_caller_data"},
      Field<&I::max_callee_data>{24, "max_callee_data"},
      Field<&I::addresses>{25, "addresses"}};
};

// ---- Messages of the client --------------------------------------------------------------------------
template <>
struct Table<Hello> {
  static constexpr std::tuple kFields{
      Field<&Hello::token>{1, "token"}, Field<&Hello::min_version>{2, "min_version"},
      Field<&Hello::max_version>{3, "max_version"}, Field<&Hello::application>{4, "application"},
      Field<&Hello::features>{5, "features"}};
};
template <>
struct Table<ListAdaptersOp> {
  static constexpr std::tuple<> kFields{};
};
template <>
struct Table<OpenAdapterOp> {
  static constexpr std::tuple kFields{Field<&OpenAdapterOp::name>{1, "name"},
                                      Field<&OpenAdapterOp::local>{2, "local"}};
};
template <>
struct Table<ResolveAddressOp> {
  static constexpr std::tuple kFields{Field<&ResolveAddressOp::adapter>{1, "adapter"},
                                      Field<&ResolveAddressOp::remote>{2, "remote"}};
};
template <>
struct Table<CheckAddressOp> {
  static constexpr std::tuple kFields{Field<&CheckAddressOp::adapter>{1, "adapter"},
                                      Field<&CheckAddressOp::local>{2, "local"}};
};
template <>
struct Table<CreateQueuePairOp> {
  static constexpr std::tuple kFields{Field<&CreateQueuePairOp::adapter>{1, "adapter"},
                                      Field<&CreateQueuePairOp::receive_depth>{2, "receive_queue_depth"},
                                      Field<&CreateQueuePairOp::initiator_depth>{3, "initiator_queue_depth"},
                                      Field<&CreateQueuePairOp::device_number>{4, "device_number"},
                                      Field<&CreateQueuePairOp::spare>{5, "spare"}};
};
template <>
struct Table<CreateConnectorOp> {
  static constexpr std::tuple kFields{Field<&CreateConnectorOp::adapter>{1, "adapter"},
                                      Field<&CreateConnectorOp::spare>{2, "spare"}};
};
template <>
struct Table<CreateListenerOp> {
  static constexpr std::tuple kFields{Field<&CreateListenerOp::adapter>{1, "adapter"}};
};
template <>
struct Table<CreateSharedEndpointOp> {
  static constexpr std::tuple kFields{Field<&CreateSharedEndpointOp::adapter>{1, "adapter"},
                                      Field<&CreateSharedEndpointOp::local>{2, "local"}};
};
template <>
struct Table<CloseOp> {
  static constexpr std::tuple kFields{Field<&CloseOp::handle>{1, "handle"}, Field<&CloseOp::ndk>{2, "ndk"}};
};
template <>
struct Table<BindOp> {
  static constexpr std::tuple kFields{Field<&BindOp::handle>{1, "handle"}, Field<&BindOp::local>{2, "local"}};
};
template <>
struct Table<ConnectOp> {
  static constexpr std::tuple kFields{Field<&ConnectOp::connector>{1, "connector"},
                                      Field<&ConnectOp::queue_pair>{2, "queue_pair"},
                                      Field<&ConnectOp::remote>{3, "remote"},
                                      Field<&ConnectOp::limits>{4, "limits"},
                                      Field<&ConnectOp::private_data>{5, "private_data"},
                                      Field<&ConnectOp::private_data_length>{6, "private_data_length"},
                                      Field<&ConnectOp::source>{7, "source"},
                                      Field<&ConnectOp::shared_endpoint>{8, "shared_endpoint"}};
};
template <>
struct Table<CompleteConnectOp> {
  static constexpr std::tuple kFields{Field<&CompleteConnectOp::connector>{1, "connector"},
                                      Field<&CompleteConnectOp::disconnect_event>{2, "disconnect_event"}};
};
template <>
struct Table<AcceptOp> {
  static constexpr std::tuple kFields{Field<&AcceptOp::connector>{1, "connector"},
                                      Field<&AcceptOp::queue_pair>{2, "queue_pair"},
                                      Field<&AcceptOp::limits>{3, "limits"},
                                      Field<&AcceptOp::private_data>{4, "private_data"},
                                      Field<&AcceptOp::private_data_length>{5, "private_data_length"},
                                      Field<&AcceptOp::disconnect_event>{6, "disconnect_event"}};
};
template <>
struct Table<RejectOp> {
  static constexpr std::tuple kFields{Field<&RejectOp::connector>{1, "connector"},
                                      Field<&RejectOp::private_data>{2, "private_data"},
                                      Field<&RejectOp::private_data_length>{3, "private_data_length"}};
};
template <>
struct Table<GetReadLimitsOp> {
  static constexpr std::tuple kFields{Field<&GetReadLimitsOp::connector>{1, "connector"}};
};
template <>
struct Table<GetPrivateDataOp> {
  static constexpr std::tuple kFields{Field<&GetPrivateDataOp::connector>{1, "connector"}};
};
template <>
struct Table<GetLocalAddressOp> {
  static constexpr std::tuple kFields{Field<&GetLocalAddressOp::handle>{1, "handle"}};
};
template <>
struct Table<GetPeerAddressOp> {
  static constexpr std::tuple kFields{Field<&GetPeerAddressOp::connector>{1, "connector"}};
};
template <>
struct Table<NotifyDisconnectOp> {
  static constexpr std::tuple kFields{Field<&NotifyDisconnectOp::connector>{1, "connector"}};
};
template <>
struct Table<DisconnectOp> {
  static constexpr std::tuple kFields{Field<&DisconnectOp::connector>{1, "connector"},
                                      Field<&DisconnectOp::begun>{2, "begun"}};
};
template <>
struct Table<CancelOp> {
  static constexpr std::tuple kFields{Field<&CancelOp::handle>{1, "handle"}};
};
template <>
struct Table<ListenOp> {
  static constexpr std::tuple kFields{
      Field<&ListenOp::listener>{1, "listener"}, Field<&ListenOp::backlog>{2, "backlog"},
      Field<&ListenOp::local>{3, "local"}, Field<&ListenOp::connect_events>{4, "connect_events"}};
};
template <>
struct Table<ControlConnectEventsOp> {
  static constexpr std::tuple kFields{Field<&ControlConnectEventsOp::listener>{1, "listener"},
                                      Field<&ControlConnectEventsOp::pause>{2, "pause"}};
};
template <>
struct Table<GetConnectionRequestOp> {
  static constexpr std::tuple kFields{Field<&GetConnectionRequestOp::listener>{1, "listener"},
                                      Field<&GetConnectionRequestOp::connector>{2, "connector"}};
};
template <>
struct Table<TransportReportOp> {
  static constexpr std::tuple kFields{
      Field<&TransportReportOp::connector>{1, "connector"}, Field<&TransportReportOp::what>{2, "what"},
      Field<&TransportReportOp::reason>{3, "reason"}, Field<&TransportReportOp::status>{4, "status"}};
};
template <>
struct Table<ReattachOp> {
  static constexpr std::tuple kFields{Field<&ReattachOp::adapter>{1, "adapter"},
                                      Field<&ReattachOp::queue_pair>{2, "queue_pair"},
                                      Field<&ReattachOp::local>{3, "local"},
                                      Field<&ReattachOp::remote>{4, "remote"},
                                      Field<&ReattachOp::limits>{5, "limits"},
                                      Field<&ReattachOp::passive>{6, "passive"},
                                      Field<&ReattachOp::proof>{7, "proof"},
                                      Field<&ReattachOp::receive_depth>{8, "receive_queue_depth"},
                                      Field<&ReattachOp::initiator_depth>{9, "initiator_queue_depth"},
                                      Field<&ReattachOp::device_number>{10, "device_number"}};
};

// ---- Messages of the broker --------------------------------------------------------------------------
template <>
struct Table<Completion> {
  using C = Completion;
  static constexpr std::tuple kFields{
      Field<&C::op_id>{1, "op_id"},
      Field<&C::status>{2, "status"},
      Field<&C::reply, &Reply::handle>{3, "handle"},
      Field<&C::reply, &Reply::address>{4, "address"},
      Field<&C::reply, &Reply::limits>{5, "limits"},
      Field<&C::reply, &Reply::private_data>{6, "private_data"},
      Field<&C::reply, &Reply::hand_off>{7, "hand_off"},
      Field<&C::reply, &Reply::adapters>{8, "adapters"},
      Field<&C::reply, &Reply::version>{9, "version"},
      Field<&C::reply, &Reply::boot_epoch>{10, "boot_epoch"},
      Field<&C::reply, &Reply::counter_slot>{11, "counter_slot"},
      Field<&C::reply, &Reply::broker_version>{12, "broker_version"},
      Field<&C::reply, &Reply::peer>{13, "peer_address"},
      Field<&C::reply, &Reply::proof>{14, "proof"},
      Field<&C::reply, &Reply::disconnect_timeout_ms>{15, "disconnect_timeout_ms"},
      Field<&C::reply, &Reply::queue_pair>{16, "queue_pair"}};
};
template <>
struct Table<ConnectEvent> {
  static constexpr std::tuple kFields{Field<&ConnectEvent::listener>{1, "listener"},
                                      Field<&ConnectEvent::connector>{2, "connector"}};
};
template <>
struct Table<DisconnectEvent> {
  static constexpr std::tuple kFields{Field<&DisconnectEvent::connector>{1, "connector"},
                                      Field<&DisconnectEvent::reason>{2, "reason"}};
};
template <>
struct Table<TransportCommand> {
  static constexpr std::tuple kFields{
      Field<&TransportCommand::connector>{1, "connector"}, Field<&TransportCommand::what>{2, "what"},
      Field<&TransportCommand::reason>{3, "reason"}, Field<&TransportCommand::timeout_ms>{4, "timeout_ms"},
      Field<&TransportCommand::attributes>{5, "attributes"}};
};
template <>
struct Table<AdapterEvent> {
  static constexpr std::tuple kFields{Field<&AdapterEvent::adapter>{1, "adapter"},
                                      Field<&AdapterEvent::what>{2, "what"}};
};
template <>
struct Table<SessionEnd> {
  static constexpr std::tuple kFields{Field<&SessionEnd::status>{1, "status"}};
};

// ---- Types -------------------------------------------------------------------------------------------
enum class FieldType : std::uint8_t { kBool, kUint32, kUint64, kInt32, kEnum, kString, kBytes, kMessage };

template <typename T>
struct Repeated : std::false_type {};
template <typename T>
struct Repeated<std::vector<T>> : std::bool_constant<!std::is_same_v<std::vector<T>, Bytes>> {};

// Returns the type of a member in the .proto file; for a repeated or optional member, the type of its
// element.
template <typename T>
constexpr FieldType TypeOf() {
  if constexpr (std::is_same_v<T, bool>) {
    return FieldType::kBool;
  } else if constexpr (std::is_same_v<T, std::uint32_t>) {
    return FieldType::kUint32;
  } else if constexpr (std::is_same_v<T, std::uint64_t> || std::is_same_v<T, Handle>) {
    return FieldType::kUint64;
  } else if constexpr (std::is_same_v<T, std::int32_t>) {
    return FieldType::kInt32;
  } else if constexpr (std::is_same_v<T, DisconnectReason> || std::is_same_v<T, RdmaTechnology>) {
    // The .proto files declare them as plain numbers, because their values are fixed.
    return FieldType::kUint32;
  } else if constexpr (std::is_enum_v<T>) {
    return FieldType::kEnum;
  } else if constexpr (std::is_same_v<T, std::string> || std::is_same_v<T, std::string_view>) {
    return FieldType::kString;
  } else if constexpr (std::is_same_v<T, Bytes> || std::is_same_v<T, std::span<const std::uint8_t>>) {
    return FieldType::kBytes;
  } else {
    static_assert(HasTable<T> || HasParts<T>, "a member has a type that the protocol does not carry");
    return FieldType::kMessage;
  }
}

}  // namespace nd::session
