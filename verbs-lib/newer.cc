// SPDX-License-Identifier: Apache-2.0
// Functions of versions of libibverbs that are newer than the headers of this build (rdma-core 57 to 65), so
// that a program of a newer distribution does not reach the real ones, which would take our objects for their
// own. Structures that the headers do not have are declared here as far as they are used.
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

#include "verbs-lib/device.h"
#include "verbs-lib/export.h"

using nd::verbs_lib::FailWith;

namespace nd::verbs_lib {
namespace {

// ibv_buf: memory that the library allocates for a program, which does not look into it.
struct Buffer {
  ibv_pd* domain;
  std::byte* begin;
  std::size_t size;
  bool Contains(const void* address, std::size_t length) const {
    const std::uintptr_t offset =
        reinterpret_cast<std::uintptr_t>(address) - reinterpret_cast<std::uintptr_t>(begin);
    return offset <= size && length <= size - offset;
  }
};

// ibv_mr_init_attr and its mask.
struct RegionWanted {
  std::size_t length;
  int access;
  std::uint64_t mask;
  std::uint64_t iova;
  void* address;
  int fd;  // These three are for files and handles of DMA.
  std::uint64_t fd_offset;
  void* dma_handle;
  Buffer* buffer;
};
constexpr std::uint64_t kHasIova = 1, kHasAddress = 2, kHasBuffer = 32;

}  // namespace
}  // namespace nd::verbs_lib

NDBROKER_PUBLIC ibv_mr* ibv_reg_mr_ex(ibv_pd* domain, nd::verbs_lib::RegionWanted* wanted) {
  using namespace nd::verbs_lib;  // NOLINT
  if ((wanted->mask & ~(kHasIova | kHasAddress | kHasBuffer)) != 0) return FailWith(EOPNOTSUPP);
  if ((wanted->mask & kHasAddress) == 0) return FailWith(EINVAL);
  // Older programs have a structure without the last member.
  if ((wanted->mask & kHasBuffer) != 0 &&
      (wanted->buffer->domain != domain || !wanted->buffer->Contains(wanted->address, wanted->length))) {
    return FailWith(EINVAL);
  }
  const std::uint64_t iova =
      (wanted->mask & kHasIova) != 0 ? wanted->iova : reinterpret_cast<std::uintptr_t>(wanted->address);
  return ibv_reg_mr_iova2(domain, wanted->address, wanted->length, iova,
                          static_cast<unsigned>(wanted->access));
}

NDBROKER_PUBLIC int ibv_query_port_speed(ibv_context*, std::uint32_t, std::uint64_t*) {
  return EOPNOTSUPP;
}

// Handles of DMA and memory of devices.
NDBROKER_PUBLIC void* ibv_alloc_dmah(ibv_context*, void*) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC int ibv_dealloc_dmah(void*) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_dm_export_dmabuf_fd(ibv_dm*) {
  errno = EOPNOTSUPP;
  return -1;
}

// Memory that the device chooses. Ours has no memory of its own, so that whole pages of the program are the
// best; peers map them.
NDBROKER_PUBLIC void* ibv_alloc_buf(ibv_pd* domain, std::size_t size, nd::verbs_lib::Buffer** out) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  void* memory = nullptr;
  if (size == 0) return FailWith(EINVAL);
  if (posix_memalign(&memory, page, size) != 0) return FailWith(ENOMEM);
  *out = new (std::nothrow) nd::verbs_lib::Buffer{domain, static_cast<std::byte*>(memory), size};
  if (*out != nullptr) return memory;
  std::free(memory);
  return FailWith(ENOMEM);
}
NDBROKER_PUBLIC int ibv_export_buf_dmabuf_fd(nd::verbs_lib::Buffer*) {
  errno = ENODATA;
  return -1;
}
NDBROKER_PUBLIC void ibv_free_buf(nd::verbs_lib::Buffer* buffer) {
  std::free(buffer->begin);
  delete buffer;
}
NDBROKER_PUBLIC ibv_mr* ibv_reg_buf_mr(ibv_pd* domain, nd::verbs_lib::Buffer* buffer, void* address,
                                       std::size_t length, int access) {
  using namespace nd::verbs_lib;  // NOLINT
  RegionWanted wanted{};
  wanted.length = length;
  wanted.access = access;
  wanted.mask = kHasAddress | kHasBuffer;
  wanted.address = address;
  wanted.buffer = buffer;
  return ibv_reg_mr_ex(domain, &wanted);
}

// Counters of completions.
NDBROKER_PUBLIC int _ibv_query_comp_cntr_caps(ibv_context*, void*, std::size_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC void* ibv_create_comp_cntr(ibv_context*, void*) {
  return FailWith(EOPNOTSUPP);
}
NDBROKER_PUBLIC int ibv_destroy_comp_cntr(void*) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_set_comp_cntr(void*, std::uint64_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_set_err_comp_cntr(void*, std::uint64_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_inc_comp_cntr(void*, std::uint64_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_inc_err_comp_cntr(void*, std::uint64_t) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_read_comp_cntr(void*, std::uint64_t*) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_read_err_comp_cntr(void*, std::uint64_t*) {
  return EOPNOTSUPP;
}
NDBROKER_PUBLIC int ibv_qp_attach_comp_cntr(ibv_qp*, void*, void*) {
  return EOPNOTSUPP;
}
