// SPDX-License-Identifier: Apache-2.0
// Memory regions.
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "verbs-lib/device.h"
#include "verbs-lib/export.h"
#include "verbs-lib/regions.h"

// Names of functions that verbs.h replaces by macros.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace nd::verbs_lib {
namespace {

struct Region {
  ibv_mr abi{};
  MemoryRegion region;
  LocalRegion local;
  unsigned access = 0;
};

constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

}  // namespace
}  // namespace nd::verbs_lib

using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;
using nd::verbs_lib::Region;

NDBROKER_PUBLIC ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length,
                                         std::uint64_t iova, unsigned access) {
  const unsigned required = access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE};
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return FailWith(EINVAL);
  if ((required & ~nd::verbs_lib::kKnownAccess) != 0 || iova != reinterpret_cast<std::uintptr_t>(address)) {
    return FailWith(EOPNOTSUPP);
  }
  std::uint32_t rights = 0;
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) rights |= nd::kAllowLocalWrite | nd::kRdmaReadSink;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights |= nd::kAllowRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights |= nd::kAllowRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights |= nd::kAllowRemoteAtomic;
  auto registered = FromAbi(domain->context)->device->adapter()->Register(address, length, rights);
  if (!registered.ok()) return FailWith(nd::verbs_lib::ErrnoOf(registered.status()));
  auto* region = new Region;
  region->region = std::move(registered).value();
  region->access = access;
  region->abi.context = domain->context;
  region->abi.pd = domain;
  region->abi.addr = address;
  region->abi.length = length;
  region->abi.lkey = region->region.local_token();
  region->abi.rkey = region->region.remote_token();
  region->local = {.memory = static_cast<std::byte*>(address),
                   .length = length,
                   .iova = iova,
                   .writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0};
  nd::verbs_lib::AddRegion(region->abi.lkey, region->local);
  return &region->abi;
}

NDBROKER_PUBLIC ibv_mr* ibv_reg_mr(ibv_pd* domain, void* address, std::size_t length, int access) {
  return ibv_reg_mr_iova2(domain, address, length, reinterpret_cast<std::uintptr_t>(address),
                          static_cast<unsigned>(access));
}

NDBROKER_PUBLIC ibv_mr* ibv_reg_mr_iova(ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                                        int access) {
  return ibv_reg_mr_iova2(domain, address, length, iova, static_cast<unsigned>(access));
}

NDBROKER_PUBLIC int ibv_dereg_mr(ibv_mr* abi) {
  auto* region = reinterpret_cast<Region*>(abi);
  // First, because another thread may get the same key at once.
  nd::verbs_lib::RemoveRegion(abi->lkey);
  if (const nd::Status status = region->region.Deregister(); !status.ok()) {
    nd::verbs_lib::AddRegion(abi->lkey, region->local);
    return nd::verbs_lib::ErrnoOf(status);
  }
  delete region;
  return 0;
}

// A new region, whose keys may differ, takes the place of the old one. On an error the old one stays.
NDBROKER_PUBLIC int ibv_rereg_mr(ibv_mr* abi, int flags, ibv_pd* domain, void* address, std::size_t length,
                                 int access) {
  auto* region = reinterpret_cast<Region*>(abi);
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if (flags == 0 || (flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0 ||
      (moves && (address == nullptr || length == 0)) || (changes_domain && domain == nullptr)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  void* new_address = moves ? address : abi->addr;
  const unsigned rights =
      (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<unsigned>(access) : region->access;
  ibv_mr* made =
      ibv_reg_mr_iova2(changes_domain ? domain : abi->pd, new_address, moves ? length : abi->length,
                       reinterpret_cast<std::uintptr_t>(new_address), rights);
  if (made == nullptr) return IBV_REREG_MR_ERR_CMD;
  auto* fresh = reinterpret_cast<Region*>(made);
  std::swap(*region, *fresh);
  if (ibv_dereg_mr(&fresh->abi) == 0) return 0;
  std::swap(*region, *fresh);
  static_cast<void>(ibv_dereg_mr(&fresh->abi));
  return IBV_REREG_MR_ERR_CMD;
}
