// SPDX-License-Identifier: Apache-2.0
// Functions of libibverbs that answer what a device without the feature answers. A function that is missing
// here would be that of the real library, which would take our objects for its own.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "verbs-lib/device.h"
#include "verbs-lib/export.h"

using nd::verbs_lib::FailWith;

// Memory of this library may be copied in a child of fork: the parent's queue pairs stay with the parent.
NDBROKER_PUBLIC int ibv_fork_init() {
  return 0;
}
NDBROKER_PUBLIC ibv_fork_status ibv_is_fork_initialized() {
  return IBV_FORK_UNNEEDED;
}
NDBROKER_PUBLIC int ibv_dontfork_range(void*, std::size_t) {
  return 0;
}
NDBROKER_PUBLIC int ibv_dofork_range(void*, std::size_t) {
  return 0;
}

NDBROKER_PUBLIC int ibv_attach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_detach_mcast(ibv_qp*, const ibv_gid*, std::uint16_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, std::uint8_t*, std::uint16_t*) {
  return EOPNOTSUPP;
}

NDBROKER_PUBLIC ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, std::uint64_t, std::size_t, std::uint64_t, int, int) {
  return FailWith(EOPNOTSUPP);
}

NDBROKER_PUBLIC ibv_context* ibv_import_device(int) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC ibv_pd* ibv_import_pd(ibv_context*, std::uint32_t) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC ibv_mr* ibv_import_mr(ibv_pd*, std::uint32_t) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC ibv_dm* ibv_import_dm(ibv_context*, std::uint32_t) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC void ibv_unimport_pd(ibv_pd*) {}
NDBROKER_PUBLIC void ibv_unimport_mr(ibv_mr*) {}
NDBROKER_PUBLIC void ibv_unimport_dm(ibv_dm*) {}

NDBROKER_PUBLIC int ibv_query_ece(ibv_qp*, ibv_ece* options) {
  std::memset(options, 0, sizeof *options);
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_set_ece(ibv_qp*, ibv_ece*) {
  return EOPNOTSUPP;
}
// 0: a program may not rely on bytes arriving in order.
NDBROKER_PUBLIC int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, std::uint32_t) {
  return 0;
}
