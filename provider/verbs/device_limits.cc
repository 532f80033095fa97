// SPDX-License-Identifier: Apache-2.0
// A device reports each maximum as an upper bound on its own. An application that asks for all the maxima of
// an adapter must get them, so the combination is tried here.
#include "provider/verbs/device_limits.h"

#include <endian.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

namespace nd::provider::verbs {
namespace {

// Larger queues bring no benefit, and some drivers allocate hundreds of megabytes for them.
constexpr std::uint32_t kDepthCap = 16384;
constexpr std::uint32_t kSgeCap = 16;
constexpr std::uint32_t kInlineCap = 1024;
constexpr std::uint32_t kCqCap = 1u << 20;
constexpr std::uint32_t kTransferCap = 1u << 30;

struct PdDeleter {
  void operator()(ibv_pd* pd) const { ibv_dealloc_pd(pd); }
};
struct CqDeleter {
  void operator()(ibv_cq* cq) const { ibv_destroy_cq(cq); }
};

bool Makes(ibv_pd* pd, ibv_cq* cq, std::uint32_t depth, std::uint32_t sge, std::uint32_t inline_size) {
  ibv_qp_init_attr attr{};
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = attr.recv_cq = cq;
  attr.cap = {depth, depth, sge, sge, inline_size};
  ibv_qp* qp = ibv_create_qp(pd, &attr);
  if (qp == nullptr) return false;
  ibv_destroy_qp(qp);
  return true;
}

RdmaTechnology TechnologyOf(const ibv_context& context, const ibv_port_attr& port) {
  if (IsIwarp(context)) return RdmaTechnology::kIwarp;
  if (port.link_layer == IBV_LINK_LAYER_ETHERNET) return RdmaTechnology::kRoceV2;
  return RdmaTechnology::kInfiniBand;
}

}  // namespace

Result<AdapterInfo> ProbeAdapter(ibv_context* context, std::uint8_t port_number) {
  const std::string name = ibv_get_device_name(context->device);
  ibv_device_attr device{};
  ibv_port_attr port{};
  if (int error = ibv_query_device(context, &device); error != 0) return OpenFailure(name, error);
  if (int error = ibv_query_port(context, port_number, &port); error != 0) return OpenFailure(name, error);
  const std::unique_ptr<ibv_pd, PdDeleter> pd(ibv_alloc_pd(context));
  const std::unique_ptr<ibv_cq, CqDeleter> cq(pd ? ibv_create_cq(context, 16, nullptr, nullptr, 0) : nullptr);
  if (!cq) return OpenFailure(name, errno);

  AdapterInfo info;
  info.provider = "verbs";
  info.adapter_id = be64toh(ibv_get_device_guid(context->device)) + port_number - 1u;
  info.vendor_id = device.vendor_id;
  info.device_id = device.vendor_part_id;
  info.technology = TechnologyOf(*context, port);
  const bool iwarp = IsIwarp(*context);
  info.flags = kAdapterLoopback | (iwarp ? 0u : kAdapterReadSinkNotRequired);
  if (ibv_resize_cq(cq.get(), 32) == 0) info.flags |= kAdapterCqResize;
  info.max_registration_size = device.max_mr_size;
  const bool windows =
      device.max_mw > 0 &&
      (device.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  info.max_window_size = windows ? device.max_mr_size : 0;
  info.max_transfer_length = std::min(port.max_msg_sz == 0 ? kTransferCap : port.max_msg_sz, kTransferCap);
  const auto positive = [](int value) { return static_cast<std::uint32_t>(std::max(value, 0)); };
  info.max_inbound_read_limit = std::min(positive(device.max_qp_rd_atom), kMaxReadLimit);
  info.max_outbound_read_limit = std::min(positive(device.max_qp_init_rd_atom), kMaxReadLimit);
  info.max_completion_queue_depth = std::min(positive(device.max_cqe), kCqCap);
  info.max_shared_receive_queue_depth = std::min(positive(device.max_srq_wr), kDepthCap);

  std::uint32_t depth = std::min(positive(device.max_qp_wr), kDepthCap);
  std::uint32_t sge = std::min(positive(device.max_sge), kSgeCap);
  if (device.max_srq > 0) sge = std::min(sge, std::max(positive(device.max_srq_sge), 1u));
  std::uint32_t inline_size = kInlineCap;
  while (inline_size > 0 && !Makes(pd.get(), cq.get(), 1, 1, inline_size)) {
    inline_size = inline_size > 16 ? inline_size - inline_size / 4 : 0;
  }
  while (!Makes(pd.get(), cq.get(), depth, sge, inline_size)) {
    if (depth <= 16) return OpenFailure(name, errno);
    depth -= depth / 4;
  }
  info.max_receive_queue_depth = info.max_initiator_queue_depth = depth;
  info.max_initiator_sge = info.max_receive_sge = sge;
  info.max_read_sge = device.max_sge_rd > 0 ? std::min(positive(device.max_sge_rd), sge) : sge;
  info.max_inline_data_size = info.inline_request_threshold = inline_size;
  info.large_request_threshold = 65536;
  info.max_caller_data = iwarp ? kIwarpPrivateData : kIbCallerData;
  info.max_callee_data = iwarp ? kIwarpPrivateData : kIbCalleeData;
  return info;
}

Status OpenFailure(const std::string& device, int error) {
  switch (error) {
    case EACCES:
    case EPERM:
      return {StatusCode::kAccessDenied,
              "This user may not open the RDMA device " + device +
                  ": give it read and write access to /dev/infiniband/uverbs* and /dev/infiniband/rdma_cm "
                  "(Debian: group rdma, or a udev rule).",
              Detail::kNone, error};
    case ENOENT:
    case ENODEV:
    case ENXIO:
    case EIO:
      return {StatusCode::kDeviceNotReady,
              "The RDMA device " + device +
                  " is not there: load its driver with ib_uverbs and rdma_ucm; "
                  "`rdma link` lists what the kernel has.",
              Detail::kNone, error};
    case ENOMEM:
    case EMFILE:
    case ENFILE:
      return {StatusCode::kInsufficientResources,
              "The RDMA device " + device +
                  " has no more resources or this process no more descriptors: " + std::strerror(error) + ".",
              Detail::kNone, error};
    default:
      return {StatusCode::kDeviceNotReady,
              "The RDMA device " + device + " does not answer: " + std::strerror(error) + ".", Detail::kNone,
              error};
  }
}

Status PinFailure(std::uint64_t bytes, int error) {
  rlimit limit{};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  if (error == ENOMEM && limit.rlim_cur != RLIM_INFINITY) {
    return {StatusCode::kInsufficientResources,
            std::to_string(bytes) + " bytes cannot be pinned: this process may lock " +
                std::to_string(limit.rlim_cur) +
                " bytes; raise it (ulimit -l, LimitMEMLOCK=infinity in a unit).",
            Detail::kNone, error};
  }
  if (error == EFAULT) {
    return {StatusCode::kAccessViolation,
            "Part of the memory is not mapped, or not with the access asked for.", Detail::kNone, error};
  }
  if (error == EINVAL) {
    return {StatusCode::kInvalidParameter, "The device takes no such memory region.", Detail::kNone, error};
  }
  return {StatusCode::kInsufficientResources,
          std::to_string(bytes) + " bytes cannot be registered: " + std::strerror(error) + ".", Detail::kNone,
          error};
}

}  // namespace nd::provider::verbs
