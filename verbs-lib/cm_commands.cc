// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/cm_commands.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs-lib/cm_id.h"

namespace nd::verbs_lib {
namespace {

// The body of a command, and where its answer goes.
struct Call {
  std::shared_ptr<CmChannel> channel;
  const void* body;
  std::size_t size;
  std::size_t room;  // Of the answer.

  // The body as `T`; fields that an older librdmacm does not send are zero.
  template <typename T>
  T As() const {
    T value{};
    std::memcpy(&value, body, std::min(size, sizeof value));
    return value;
  }
  template <typename T>
  void Answer(std::uint64_t address, const T& value) const {
    std::memcpy(reinterpret_cast<void*>(static_cast<std::uintptr_t>(address)), &value,
                std::min(room, sizeof value));
  }
};

Address AddressOf(const sockaddr_in6& address) {
  if (address.sin6_family == AF_UNSPEC) return {};
  return Address::FromSockaddr(reinterpret_cast<const sockaddr*>(&address), sizeof address);
}

// Calls `function(id)` for the identifier of the command.
template <typename Command, typename Function>
int WithId(const Command& command, Function function) {
  const auto id = CmId::Find(command.id);
  return id ? function(*id) : ENOENT;
}

int CreateId(const Call& call) {
  const auto command = call.As<rdma_ucm_create_id>();
  // RDMA_PS_IB is refused too, so that librdmacm uses the commands for IP addresses.
  if (command.ps == RDMA_PS_IB || command.ps == RDMA_PS_IPOIB) return EPROTONOSUPPORT;
  if (command.ps != RDMA_PS_TCP && command.ps != RDMA_PS_UDP) return EINVAL;
  const auto id = CmId::Make(call.channel, command.uid,
                             command.ps == RDMA_PS_UDP ? CmId::Space::kDatagrams : CmId::Space::kConnections);
  call.Answer(command.response, rdma_ucm_create_id_resp{id->handle()});
  return 0;
}

int DestroyId(const Call& call) {
  const auto command = call.As<rdma_ucm_destroy_id>();
  return WithId(command, [&](CmId& id) {
    call.Answer(command.response, rdma_ucm_destroy_id_resp{id.Destroy()});
    return 0;
  });
}

int BindIp(const Call& call) {
  const auto command = call.As<rdma_ucm_bind_ip>();
  return WithId(command, [&](CmId& id) { return id.Bind(AddressOf(command.addr)); });
}

int ResolveIp(const Call& call) {
  const auto command = call.As<rdma_ucm_resolve_ip>();
  return WithId(command, [&](CmId& id) {
    return id.ResolveAddress(AddressOf(command.src_addr), AddressOf(command.dst_addr));
  });
}

int ResolveRoute(const Call& call) {
  return WithId(call.As<rdma_ucm_resolve_route>(), [](CmId& id) { return id.ResolveRoute(); });
}

int QueryRoute(const Call& call) {
  const auto command = call.As<rdma_ucm_query>();
  return WithId(command, [&](CmId& id) {
    rdma_ucm_query_route_resp route;
    id.FillRoute(&route);
    call.Answer(command.response, route);
    return 0;
  });
}

int Listen(const Call& call) {
  const auto command = call.As<rdma_ucm_listen>();
  return WithId(command, [&](CmId& id) { return id.Listen(command.backlog); });
}

int Connect(const Call& call) {
  const auto command = call.As<rdma_ucm_connect>();
  return WithId(command, [&](CmId& id) { return id.Connect(command.conn_param); });
}

int Accept(const Call& call) {
  const auto command = call.As<rdma_ucm_accept>();
  return WithId(command, [&](CmId& id) { return id.Accept(command.uid, command.conn_param); });
}

int Reject(const Call& call) {
  const auto command = call.As<rdma_ucm_reject>();
  return WithId(command, [&](CmId& id) {
    return id.Reject(std::as_bytes(std::span(command.private_data, command.private_data_len)));
  });
}

int Disconnect(const Call& call) {
  return WithId(call.As<rdma_ucm_disconnect>(), [](CmId& id) { return id.Disconnect(); });
}

int InitQpAttributes(const Call& call) {
  const auto command = call.As<rdma_ucm_init_qp_attr>();
  return WithId(command, [&](CmId& id) {
    ib_uverbs_qp_attr attributes;
    id.FillQpAttributes(command.qp_state, &attributes);
    call.Answer(command.response, attributes);
    return 0;
  });
}

int GetEvent(const Call& call) {
  const auto command = call.As<rdma_ucm_get_event>();
  CmChannel::Event event;
  if (const int error = call.channel->Pop(&event)) return error;
  event.owner->Reported(&event);
  call.Answer(command.response, event.response);
  return 0;
}

int MigrateId(const Call& call) {
  const auto command = call.As<rdma_ucm_migrate_id>();
  // The command arrives on the new channel; `fd` is the former one.
  return WithId(command, [&](CmId& id) {
    call.Answer(command.response, rdma_ucm_migrate_resp{id.MoveTo(call.channel)});
    return 0;
  });
}

// The length of an option, 0 for an unknown one.
std::uint32_t LengthOf(std::uint32_t option) {
  switch (option) {
    case RDMA_OPTION_ID_TOS:
    case RDMA_OPTION_ID_ACK_TIMEOUT:
      return sizeof(std::uint8_t);
    case RDMA_OPTION_ID_REUSEADDR:
    case RDMA_OPTION_ID_AFONLY:
      return sizeof(int);
    default:
      return 0;
  }
}

// REUSEADDR and TOS have no effect: the broker behaves as they ask, or soft has no field for them.
// Nor have the paths of InfiniBand. Devices answer 0, too.
int SetOption(const Call& call) {
  const auto command = call.As<rdma_ucm_set_option>();
  if (command.level == RDMA_OPTION_IB && command.optname == RDMA_OPTION_IB_PATH) return 0;
  const std::uint32_t length = command.level == RDMA_OPTION_ID ? LengthOf(command.optname) : 0;
  if (length == 0) return ENOSYS;
  if (command.optlen != length) return EINVAL;
  const auto* const value = reinterpret_cast<const void*>(static_cast<std::uintptr_t>(command.optval));
  return WithId(command, [&](CmId& id) {
    if (command.optname == RDMA_OPTION_ID_ACK_TIMEOUT) {
      id.SetAckTimeout(*static_cast<const std::uint8_t*>(value));
    } else if (command.optname == RDMA_OPTION_ID_AFONLY) {
      id.SetOneFamily(*static_cast<const int*>(value) != 0);
    }
    return 0;
  });
}

}  // namespace

int RunCommand(const std::shared_ptr<CmChannel>& channel, const void* data, std::size_t size) {
  rdma_ucm_cmd_hdr header;
  if (size < sizeof header) return EINVAL;
  std::memcpy(&header, data, sizeof header);
  if (header.in > size - sizeof header) return EINVAL;
  const Call call{channel, static_cast<const char*>(data) + sizeof header, header.in, header.out};
  switch (header.cmd) {
    case RDMA_USER_CM_CMD_CREATE_ID:
      return CreateId(call);
    case RDMA_USER_CM_CMD_DESTROY_ID:
      return DestroyId(call);
    case RDMA_USER_CM_CMD_BIND_IP:
      return BindIp(call);
    case RDMA_USER_CM_CMD_RESOLVE_IP:
      return ResolveIp(call);
    case RDMA_USER_CM_CMD_RESOLVE_ROUTE:
      return ResolveRoute(call);
    case RDMA_USER_CM_CMD_QUERY_ROUTE:
      return QueryRoute(call);
    case RDMA_USER_CM_CMD_LISTEN:
      return Listen(call);
    case RDMA_USER_CM_CMD_CONNECT:
      return Connect(call);
    case RDMA_USER_CM_CMD_ACCEPT:
      return Accept(call);
    case RDMA_USER_CM_CMD_REJECT:
      return Reject(call);
    case RDMA_USER_CM_CMD_DISCONNECT:
      return Disconnect(call);
    case RDMA_USER_CM_CMD_INIT_QP_ATTR:
      return InitQpAttributes(call);
    case RDMA_USER_CM_CMD_GET_EVENT:
      return GetEvent(call);
    case RDMA_USER_CM_CMD_MIGRATE_ID:
      return MigrateId(call);
    case RDMA_USER_CM_CMD_SET_OPTION:
      return SetOption(call);
    case RDMA_USER_CM_CMD_NOTIFY:
      return 0;  // The library sees for itself when the peer's first data are there.
    default:
      return ENOSYS;
  }
}

}  // namespace nd::verbs_lib
