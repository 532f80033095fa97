// SPDX-License-Identifier: Apache-2.0
// The messages of a client: Hello, then operations. proto/ndbroker/v1/session.proto says what each field
// means.
//
// A new operation is a struct and a row of kOperations here, and its fields in table.h. codec_test compares
// both with session.proto.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <variant>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "session/handle.h"

namespace nd::session {

using Bytes = std::vector<std::uint8_t>;

enum ClientFeatures : std::uint32_t {
  kClientExtensions = 0x1,     // Its queue pairs know requests with immediate data and atomic operations.
  kClientSpares = 0x2,         // It makes objects ahead, so the broker offers it spares (provider/regions.h).
  kClientTakesTogether = 0x4,  // It takes a hand-over and messages in one datagram (provider/hand_off.h).
};

// The first message of a session.
struct Hello {
  Bytes token;
  std::uint32_t min_version = 0, max_version = 0;
  std::string application;
  std::uint32_t features = 0;  // ClientFeatures
};

struct ListAdaptersOp {};
struct OpenAdapterOp {
  std::string name;
  Address local;
};
struct ResolveAddressOp {
  Handle adapter;
  Address remote;
};
struct CheckAddressOp {
  Handle adapter;
  Address local;
};
struct CreateQueuePairOp {
  Handle adapter;
  std::uint32_t receive_depth = 0, initiator_depth = 0, device_number = 0;
  std::uint32_t spare = 0;  // Not 0: made ahead.
};
struct CreateConnectorOp {
  Handle adapter;
  std::uint32_t spare = 0;
};
struct CreateListenerOp {
  Handle adapter;
};
struct CreateSharedEndpointOp {
  Handle adapter;
  Address local;
};
struct CloseOp {
  Handle handle;
  bool ndk = false;
};
struct BindOp {
  Handle handle;
  Address local;
};
struct ConnectOp {
  Handle connector, queue_pair;
  Address remote;
  ReadLimits limits;
  Bytes private_data;
  std::uint32_t private_data_length = 0;
  std::optional<Address> source;  // NDK dialect
  Handle shared_endpoint;         // NDK dialect
};
struct CompleteConnectOp {
  Handle connector;
  bool disconnect_event = false;
};
struct AcceptOp {
  Handle connector, queue_pair;
  ReadLimits limits;
  Bytes private_data;
  std::uint32_t private_data_length = 0;
  bool disconnect_event = false;
};
struct RejectOp {
  Handle connector;
  Bytes private_data{};
  std::uint32_t private_data_length = 0;
};
struct GetReadLimitsOp {
  Handle connector;
};
struct GetPrivateDataOp {
  Handle connector;
};
struct GetLocalAddressOp {
  Handle handle;
};
struct GetPeerAddressOp {
  Handle connector;
};
struct NotifyDisconnectOp {
  Handle connector;
};
struct DisconnectOp {
  Handle connector;
  bool begun = false;  // The client has begun the goodbye, and needs no order.
};
struct CancelOp {
  Handle handle;
};
struct ListenOp {
  Handle listener;
  std::uint32_t backlog = 0;
  std::optional<Address> local{};  // NDK dialect: bind too
  bool connect_events = false;
};
struct ControlConnectEventsOp {
  Handle listener;
  bool pause = false;
};
struct GetConnectionRequestOp {
  Handle listener, connector;
};
struct TransportReportOp {
  enum class What : std::uint32_t { kUnspecified, kPeerClosed, kDisconnectDone, kPrepared };
  Handle connector;
  What what = What::kUnspecified;
  DisconnectReason reason = DisconnectReason::kUnknown;
  Status status;
};
struct ReattachOp {
  Handle adapter, queue_pair;
  Address local, remote;
  ReadLimits limits;
  bool passive = false;
  Bytes proof{};  // Of the hand-over.
  // Without a queue pair it makes one, as CreateQueuePairOp.
  std::uint32_t receive_depth = 0, initiator_depth = 0, device_number = 0;
};

// One kind of message: its number and field name in the oneof of session.proto, and its name for people.
template <typename T>
struct Case {
  using Type = T;
  std::uint32_t number;
  const char* field;
  const char* name;
};

inline constexpr Case<Hello> kHelloCase{2, "hello", "Hello"};

inline constexpr std::tuple kOperations{
    Case<ListAdaptersOp>{3, "list_adapters", "ListAdapters"},
    Case<OpenAdapterOp>{4, "open_adapter", "OpenAdapter"},
    Case<ResolveAddressOp>{5, "resolve_address", "ResolveAddress"},
    Case<CheckAddressOp>{6, "check_address", "CheckAddress"},
    Case<CreateQueuePairOp>{7, "create_queue_pair", "CreateQueuePair"},
    Case<CreateConnectorOp>{8, "create_connector", "CreateConnector"},
    Case<CreateListenerOp>{9, "create_listener", "CreateListener"},
    Case<CreateSharedEndpointOp>{10, "create_shared_endpoint", "CreateSharedEndpoint"},
    Case<CloseOp>{11, "close", "Close"},
    Case<BindOp>{12, "bind", "Bind"},
    Case<ConnectOp>{13, "connect", "Connect"},
    Case<CompleteConnectOp>{14, "complete_connect", "CompleteConnect"},
    Case<AcceptOp>{15, "accept", "Accept"},
    Case<RejectOp>{16, "reject", "Reject"},
    Case<GetReadLimitsOp>{17, "get_read_limits", "GetReadLimits"},
    Case<GetPrivateDataOp>{18, "get_private_data", "GetPrivateData"},
    Case<GetLocalAddressOp>{19, "get_local_address", "GetLocalAddress"},
    Case<GetPeerAddressOp>{20, "get_peer_address", "GetPeerAddress"},
    Case<NotifyDisconnectOp>{21, "notify_disconnect", "NotifyDisconnect"},
    Case<DisconnectOp>{22, "disconnect", "Disconnect"},
    Case<CancelOp>{23, "cancel", "Cancel"},
    Case<ListenOp>{24, "listen", "Listen"},
    Case<ControlConnectEventsOp>{25, "control_connect_events", "ControlConnectEvents"},
    Case<GetConnectionRequestOp>{26, "get_connection_request", "GetConnectionRequest"},
    Case<TransportReportOp>{27, "transport_report", "TransportReport"},
    Case<ReattachOp>{28, "reattach", "Reattach"}};

// Makes the variant whose alternatives are the rows of kOperations, in their order.
template <typename Rows>
struct VariantOfRows;
template <typename... T>
struct VariantOfRows<const std::tuple<Case<T>...>> {
  using Type = std::variant<T...>;
};
using Operation = VariantOfRows<decltype(kOperations)>::Type;

inline constexpr std::size_t kOperationCount = std::variant_size_v<Operation>;
// "Connect" for the index of ConnectOp in Operation; "?" beyond the last.
const char* OperationName(std::size_t index);

// Empty: a well-formed message without an operation that this version knows.
struct ClientMessage {
  OpId op_id = 0;
  std::variant<std::monostate, Hello, Operation> content;
};

}  // namespace nd::session
