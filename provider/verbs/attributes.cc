// SPDX-License-Identifier: Apache-2.0
// The layout is ndbroker's own, so that the two halves need not use the same version of libibverbs.
#include "provider/verbs/attributes.h"

#include <cstring>

namespace nd::provider::verbs {
namespace {

constexpr std::uint32_t kMagic = 0x4E445150;  // "NDQP"
constexpr std::uint16_t kVersion = 1;

struct WireTransition {
  std::uint32_t state, mask;
  std::uint32_t path_mtu, dest_qp_num, rq_psn, sq_psn, flow_label;
  std::uint16_t pkey_index, dlid;
  std::uint8_t port_num, max_rd_atomic, max_dest_rd_atomic, min_rnr_timer;
  std::uint8_t timeout, retry_count, rnr_retry, is_global;
  std::uint8_t sgid_index, hop_limit, traffic_class, sl;
  std::uint8_t src_path_bits, static_rate, ah_port, reserved;
  std::uint8_t dgid[16];
};

struct Wire {
  std::uint32_t magic;
  std::uint16_t version, size;
  WireTransition transitions[3];
};
static_assert(std::is_trivially_copyable_v<Wire>);

constexpr std::uint32_t kStates[3] = {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS};
constexpr int kAllowed = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_AV |
                         IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                         IBV_QP_MIN_RNR_TIMER | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                         IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;

WireTransition ToWire(const QpTransition& from) {
  const ibv_qp_attr& a = from.attr;
  WireTransition to{};
  to.state = a.qp_state;
  to.mask = static_cast<std::uint32_t>(from.mask);
  to.path_mtu = a.path_mtu;
  to.dest_qp_num = a.dest_qp_num;
  to.rq_psn = a.rq_psn;
  to.sq_psn = a.sq_psn;
  to.flow_label = a.ah_attr.grh.flow_label;
  to.pkey_index = a.pkey_index;
  to.dlid = a.ah_attr.dlid;
  to.port_num = a.port_num;
  to.max_rd_atomic = a.max_rd_atomic;
  to.max_dest_rd_atomic = a.max_dest_rd_atomic;
  to.min_rnr_timer = a.min_rnr_timer;
  to.timeout = a.timeout;
  to.retry_count = a.retry_cnt;
  to.rnr_retry = a.rnr_retry;
  to.is_global = a.ah_attr.is_global;
  to.sgid_index = a.ah_attr.grh.sgid_index;
  to.hop_limit = a.ah_attr.grh.hop_limit;
  to.traffic_class = a.ah_attr.grh.traffic_class;
  to.sl = a.ah_attr.sl;
  to.src_path_bits = a.ah_attr.src_path_bits;
  to.static_rate = a.ah_attr.static_rate;
  to.ah_port = a.ah_attr.port_num;
  std::memcpy(to.dgid, a.ah_attr.grh.dgid.raw, sizeof to.dgid);
  return to;
}

QpTransition FromWire(const WireTransition& from) {
  QpTransition to;
  ibv_qp_attr& a = to.attr;
  to.mask = static_cast<int>(from.mask);
  a.qp_state = static_cast<ibv_qp_state>(from.state);
  a.path_mtu = static_cast<ibv_mtu>(from.path_mtu);
  a.dest_qp_num = from.dest_qp_num;
  a.rq_psn = from.rq_psn;
  a.sq_psn = from.sq_psn;
  a.ah_attr.grh.flow_label = from.flow_label;
  a.pkey_index = from.pkey_index;
  a.ah_attr.dlid = from.dlid;
  a.port_num = from.port_num;
  a.max_rd_atomic = from.max_rd_atomic;
  a.max_dest_rd_atomic = from.max_dest_rd_atomic;
  a.min_rnr_timer = from.min_rnr_timer;
  a.timeout = from.timeout;
  a.retry_cnt = from.retry_count;
  a.rnr_retry = from.rnr_retry;
  a.ah_attr.is_global = from.is_global;
  a.ah_attr.grh.sgid_index = from.sgid_index;
  a.ah_attr.grh.hop_limit = from.hop_limit;
  a.ah_attr.grh.traffic_class = from.traffic_class;
  a.ah_attr.sl = from.sl;
  a.ah_attr.src_path_bits = from.src_path_bits;
  a.ah_attr.static_rate = from.static_rate;
  a.ah_attr.port_num = from.ah_port;
  std::memcpy(a.ah_attr.grh.dgid.raw, from.dgid, sizeof from.dgid);
  return to;
}

}  // namespace

std::vector<std::uint8_t> EncodeTransitions(const QpTransitions& transitions) {
  Wire wire{};
  wire.magic = kMagic;
  wire.version = kVersion;
  wire.size = sizeof wire;
  for (std::size_t i = 0; i < transitions.size(); ++i) wire.transitions[i] = ToWire(transitions[i]);
  std::vector<std::uint8_t> bytes(sizeof wire);
  std::memcpy(bytes.data(), &wire, sizeof wire);
  return bytes;
}

Result<QpTransitions> DecodeTransitions(std::span<const std::uint8_t> bytes) {
  Wire wire{};
  if (bytes.size() != sizeof wire) {
    return {StatusCode::kInvalidParameter, "queue pair attributes of the wrong size"};
  }
  std::memcpy(&wire, bytes.data(), sizeof wire);
  if (wire.magic != kMagic || wire.version != kVersion || wire.size != sizeof wire) {
    return {StatusCode::kInvalidParameter, "queue pair attributes of another version"};
  }
  QpTransitions transitions;
  for (std::size_t i = 0; i < transitions.size(); ++i) {
    const WireTransition& from = wire.transitions[i];
    if (from.state != kStates[i] || (from.mask & ~static_cast<std::uint32_t>(kAllowed)) != 0) {
      return {StatusCode::kInvalidParameter, "queue pair attributes out of order"};
    }
    transitions[i] = FromWire(from);
  }
  return transitions;
}

}  // namespace nd::provider::verbs
