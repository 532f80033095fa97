// SPDX-License-Identifier: Apache-2.0
// Opened devices: their table of functions, their attributes and their asynchronous events.
#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "verbs-lib/completion.h"
#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/export.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/memory.h"
#include "verbs-lib/queue_pair.h"
#include "verbs-lib/settings.h"
#include "verbs-lib/wait.h"
#include "verbs-lib/window.h"

// Names of functions that verbs.h replaces by macros.
#undef ibv_query_port

namespace nd::verbs_lib {
namespace {

constexpr std::uint32_t kMaxObjects = 65536;

// Tables of devices have empty entries behind the addresses.
std::size_t GidTableSize(const Device& device) {
  return std::max<std::size_t>(device.info.addresses.size(), 16);
}

int FillPort(ibv_context* context, std::uint8_t port, ibv_port_attr* out, std::size_t size) {
  if (port != kOnlyPort) return EINVAL;
  ibv_port_attr attributes{};
  const bool up = FromAbi(context)->device->port_is_up();
  attributes.state = up ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
  attributes.max_mtu = attributes.active_mtu = IBV_MTU_4096;
  attributes.gid_tbl_len = static_cast<int>(GidTableSize(*FromAbi(context)->device));
  attributes.max_msg_sz = FromAbi(context)->device->info.max_transfer_length;
  attributes.pkey_tbl_len = 1;
  const auto& addresses = FromAbi(context)->device->info.addresses;
  attributes.lid = addresses.empty() ? std::uint16_t{0} : LidOf(addresses.front());
  attributes.active_width = 2;
  attributes.active_speed = 32;
  attributes.phys_state = up ? 5 : 3;  // Link up, disabled.
  attributes.max_vl_num = 1;
  attributes.link_layer = IBV_LINK_LAYER_ETHERNET;
  std::memcpy(out, &attributes, std::min(size, sizeof attributes));
  return 0;
}

void FillDevice(const Device& device, ibv_device_attr* out) {
  const AdapterInfo& info = device.info;
  std::memset(out, 0, sizeof *out);
  std::snprintf(out->fw_ver, sizeof out->fw_ver, "ndbroker");
  out->node_guid = out->sys_image_guid = GuidOf(info);
  out->max_mr_size = info.max_registration_size;
  out->page_size_cap = ~std::uint64_t{0xfff};
  out->vendor_id = info.vendor_id;
  out->vendor_part_id = info.device_id;
  out->max_qp = out->max_cq = out->max_mr = out->max_pd = out->max_srq = out->max_ah = kMaxObjects;
  out->max_qp_wr = static_cast<int>(std::min(info.max_initiator_queue_depth, info.max_receive_queue_depth));
  out->max_sge = static_cast<int>(std::min(info.max_initiator_sge, info.max_receive_sge));
  out->max_sge_rd = static_cast<int>(info.max_read_sge);
  out->max_cqe = static_cast<int>(info.max_completion_queue_depth);
  // rdma_conn_param has 8 bits for these.
  out->max_qp_rd_atom = static_cast<int>(std::min<std::uint32_t>(info.max_inbound_read_limit, 128));
  out->max_qp_init_rd_atom = static_cast<int>(std::min<std::uint32_t>(info.max_outbound_read_limit, 128));
  out->max_res_rd_atom = out->max_qp_rd_atom * static_cast<int>(kMaxObjects);
  out->atomic_cap = IBV_ATOMIC_HCA;
  // Windows of type 2 are for the queue pair that binds them (2B).
  out->device_cap_flags = IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2B;
  out->max_mw = kMaxObjects;
  out->max_srq_wr = static_cast<int>(info.max_shared_receive_queue_depth);
  out->max_srq_sge = static_cast<int>(info.max_receive_sge);
  out->max_pkeys = 1;
  out->phys_port_cnt = kOnlyPort;
}

int QueryDeviceEx(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* out,
                  std::size_t size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  ibv_device_attr_ex attributes{};
  FillDevice(*FromAbi(context)->device, &attributes.orig_attr);
  attributes.phys_port_cnt_ex = kOnlyPort;
  // A processor touches the pages of a region when it uses them, so every region may be on demand. All memory
  // at once (implicit) may not: a request could name memory that is not mapped.
  constexpr std::uint32_t kDatagrams = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
  constexpr std::uint32_t kUnreliable = kDatagrams | IBV_ODP_SUPPORT_WRITE;
  attributes.odp_caps.general_caps = IBV_ODP_SUPPORT;
  attributes.odp_caps.per_transport_caps.ud_odp_caps = kDatagrams;
  attributes.odp_caps.per_transport_caps.uc_odp_caps = kUnreliable;
  attributes.odp_caps.per_transport_caps.rc_odp_caps =
      kUnreliable | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC;
  attributes.device_cap_flags_ex = attributes.orig_attr.device_cap_flags;
  std::memcpy(out, &attributes, std::min(size, sizeof attributes));
  return 0;
}

// The object of an event, and the context that it belongs to. Null: that of a port or a device.
const void* ObjectOf(const ibv_async_event& event, ibv_context** context) {
  switch (event.event_type) {
    case IBV_EVENT_CQ_ERR:
      *context = event.element.cq->context;
      return event.element.cq;
    case IBV_EVENT_QP_FATAL:
    case IBV_EVENT_QP_REQ_ERR:
    case IBV_EVENT_QP_ACCESS_ERR:
    case IBV_EVENT_COMM_EST:
    case IBV_EVENT_SQ_DRAINED:
    case IBV_EVENT_PATH_MIG:
    case IBV_EVENT_PATH_MIG_ERR:
    case IBV_EVENT_QP_LAST_WQE_REACHED:
      *context = event.element.qp->context;
      return event.element.qp;
    case IBV_EVENT_SRQ_ERR:
    case IBV_EVENT_SRQ_LIMIT_REACHED:
      *context = event.element.srq->context;
      return event.element.srq;
    default:
      return nullptr;
  }
}

}  // namespace

void Context::Tell(const ibv_async_event& event) {
  std::lock_guard lock(mutex);
  events.push_back(event);
  if (events.size() == 1) eventfd_write(abi.context.async_fd, 1);
}

void Context::Forget(const void* object) {
  std::unique_lock lock(mutex);
  const auto is_its = [object](const ibv_async_event& event) {
    ibv_context* ignored;
    return ObjectOf(event, &ignored) == object;
  };
  eventfd_t count;
  if (std::erase_if(events, is_its) != 0 && events.empty()) eventfd_read(abi.context.async_fd, &count);
  acknowledged.wait(lock, [&] { return !unacknowledged.contains(object); });
}

void Context::Acknowledge(const void* object) {
  std::lock_guard lock(mutex);
  const auto found = unacknowledged.find(object);
  if (found == unacknowledged.end() || --found->second != 0) return;
  unacknowledged.erase(found);
  acknowledged.notify_all();
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::AddressOf;
using nd::verbs_lib::Context;
using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;

NDBROKER_PUBLIC ibv_context* ibv_open_device(ibv_device* device) {
  if (nd::verbs_lib::RefuseInForkedChild()) return nullptr;
  // The session with the broker begins with the first object, so that a program may look at its devices
  // before it forks. Programs may duplicate the descriptor for commands.
  const int events = eventfd(0, EFD_CLOEXEC), commands = eventfd(0, EFD_CLOEXEC);
  if (events < 0 || commands < 0) {
    const int error = errno;
    close(events);
    close(commands);
    return FailWith(error);
  }
  auto* made = new Context;
  made->device = FromAbi(device);
  made->abi.sz = sizeof made->abi;
  made->abi.query_port = nd::verbs_lib::FillPort;
  made->abi.query_device_ex = nd::verbs_lib::QueryDeviceEx;
  made->abi.create_srq_ex = nd::verbs_lib::CreateSrqEx;
  made->abi.create_cq_ex = nd::verbs_lib::CreateCqEx;
  made->abi.create_qp_ex = nd::verbs_lib::CreateQpEx;
  made->abi.alloc_parent_domain = nd::verbs_lib::AllocParentDomain;
  made->abi.advise_mr = nd::verbs_lib::AdviseRegions;
  made->abi.alloc_td = nd::verbs_lib::AllocThreadDomain;
  made->abi.dealloc_td = nd::verbs_lib::DeallocThreadDomain;
  ibv_context& context = made->abi.context;
  context.device = device;
  context.cmd_fd = commands;
  context.async_fd = events;
  context.num_comp_vectors = 1;
  context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  pthread_mutex_init(&context.mutex, nullptr);
  context.ops.poll_cq = nd::verbs_lib::PollCq;
  context.ops.req_notify_cq = nd::verbs_lib::ReqNotifyCq;
  context.ops.post_send = nd::verbs_lib::PostSend;
  context.ops.post_recv = nd::verbs_lib::PostReceive;
  context.ops.post_srq_recv = nd::verbs_lib::PostSrqReceive;
  context.ops.alloc_mw = nd::verbs_lib::AllocWindow;
  context.ops.dealloc_mw = nd::verbs_lib::DeallocWindow;
  context.ops.bind_mw = nd::verbs_lib::BindWindow;
  made->device->AddContext(made);
  return &context;
}

NDBROKER_PUBLIC int ibv_close_device(ibv_context* context) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  FromAbi(context)->device->RemoveContext(FromAbi(context));
  close(context->async_fd);
  close(context->cmd_fd);
  pthread_mutex_destroy(&context->mutex);
  delete FromAbi(context);
  return 0;
}

NDBROKER_PUBLIC int ibv_query_device(ibv_context* context, ibv_device_attr* out) {
  nd::verbs_lib::FillDevice(*FromAbi(context)->device, out);
  return 0;
}

// Called by programs that were compiled with a header older than verbs_context::query_port.
NDBROKER_PUBLIC int ibv_query_port(ibv_context* context, std::uint8_t port, _compat_ibv_port_attr* out) {
  return nd::verbs_lib::FillPort(context, port, reinterpret_cast<ibv_port_attr*>(out),
                                 offsetof(ibv_port_attr, flags));
}

NDBROKER_PUBLIC int ibv_query_gid(ibv_context* context, std::uint8_t port, int index, ibv_gid* gid) {
  const nd::verbs_lib::Device& device = *FromAbi(context)->device;
  const auto place = static_cast<std::size_t>(index);
  if (port != nd::verbs_lib::kOnlyPort || index < 0 || place >= nd::verbs_lib::GidTableSize(device)) {
    errno = EINVAL;
    return -1;
  }
  const auto& addresses = device.info.addresses;
  *gid = place < addresses.size() ? nd::verbs_lib::GidOf(addresses[place]) : ibv_gid{};
  return 0;
}

NDBROKER_PUBLIC int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index,
                                      ibv_gid_entry* entry, std::uint32_t flags, std::size_t size) {
  if (flags != 0) return EOPNOTSUPP;
  ibv_gid_entry made{};
  if (index >= FromAbi(context)->device->info.addresses.size()) return ENODATA;
  if (ibv_query_gid(context, static_cast<std::uint8_t>(port), static_cast<int>(index), &made.gid) != 0) {
    return ENODATA;
  }
  made.gid_index = index;
  made.port_num = port;
  made.gid_type = nd::verbs_lib::ActsAsIwarp() ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2;
  std::memcpy(entry, &made, std::min(size, sizeof made));
  return 0;
}

NDBROKER_PUBLIC ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t most,
                                             std::uint32_t flags, std::size_t size) {
  if (flags != 0) return -EOPNOTSUPP;
  const std::size_t count = FromAbi(context)->device->info.addresses.size();
  if (count > most) return -EINVAL;
  for (std::uint32_t i = 0; i < count; ++i) {
    auto* entry = reinterpret_cast<ibv_gid_entry*>(reinterpret_cast<char*>(entries) + i * size);
    _ibv_query_gid_ex(context, nd::verbs_lib::kOnlyPort, i, entry, flags, size);
  }
  return static_cast<ssize_t>(count);
}

// Private to rdma-core, but ibv_devinfo and pyverbs import it. *type: 0 is InfiniBand or RoCE v1, 1 is RoCE
// v2.
// At the private node of each version of rdma-core (CMakeLists.txt). It has been the same function in all of
// them.
asm(R"(
  .set version, 33
  .macro at_node number
    .globl ibv_query_gid_type_\number
    .set ibv_query_gid_type_\number, ibv_query_gid_type_of_all
    .symver ibv_query_gid_type_\number, ibv_query_gid_type@IBVERBS_PRIVATE_\number, remove
  .endm
  .altmacro
  .rept 67
    at_node %version
    .set version, version + 1
  .endr
  .noaltmacro
)");
extern "C" __attribute__((used)) int ibv_query_gid_type_of_all(ibv_context* context, std::uint8_t port,
                                                               unsigned index, int* type) {
  ibv_gid gid;
  if (ibv_query_gid(context, port, static_cast<int>(index), &gid) != 0) return -1;
  *type = nd::verbs_lib::ActsAsIwarp() ? 0 : 1;
  return 0;
}

NDBROKER_PUBLIC int ibv_query_pkey(ibv_context*, std::uint8_t port, int index, __be16* pkey) {
  if (port != nd::verbs_lib::kOnlyPort || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = 0xffff;
  return 0;
}

NDBROKER_PUBLIC int ibv_get_pkey_index(ibv_context*, std::uint8_t port, __be16 pkey) {
  if (port == nd::verbs_lib::kOnlyPort && pkey == 0xffff) return 0;
  errno = EINVAL;
  return -1;
}

NDBROKER_PUBLIC int ibv_get_async_event(ibv_context* abi, ibv_async_event* event) {
  if (nd::verbs_lib::RefuseInForkedChild()) return -1;
  Context* context = FromAbi(abi);
  for (;;) {
    {
      std::lock_guard lock(context->mutex);
      if (!context->events.empty()) {
        *event = context->events.front();
        context->events.pop_front();
        eventfd_t count;
        if (context->events.empty()) eventfd_read(abi->async_fd, &count);
        ibv_context* own;
        if (const void* object = nd::verbs_lib::ObjectOf(*event, &own)) ++context->unacknowledged[object];
        return 0;
      }
    }
    if (nd::verbs_lib::WaitReadable(abi->async_fd) != 0) return -1;
  }
}

NDBROKER_PUBLIC void ibv_ack_async_event(ibv_async_event* event) {
  ibv_context* context = nullptr;
  if (const void* object = nd::verbs_lib::ObjectOf(*event, &context)) FromAbi(context)->Acknowledge(object);
}
