// SPDX-License-Identifier: Apache-2.0
// Memory regions.
#include "verbs-lib/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <utility>

#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/export.h"
#include "verbs-lib/forked.h"

// Names of functions that verbs.h replaces by macros.
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace nd::verbs_lib {
namespace {

// Others, outside the optional range, are refused. Every region is as one that is registered on demand: its
// pages are touched when they are used.
constexpr unsigned kKnownAccess = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
                                  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |
                                  IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB;

// 0 or an errno.
int CheckAccess(const void* address, std::size_t length, unsigned access) {
  const unsigned required = access & ~unsigned{IBV_ACCESS_OPTIONAL_RANGE};
  const bool remote_writes = (access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) != 0;
  if (remote_writes && (access & IBV_ACCESS_LOCAL_WRITE) == 0) return EINVAL;
  // All memory of the process, which only devices with implicit on-demand paging register.
  const bool implicit = address == nullptr && length == SIZE_MAX;
  return (required & ~kKnownAccess) != 0 || implicit ? EOPNOTSUPP : 0;
}

// Fails for a page that the process may not access so. Kernels before 5.14 do not know the advice.
bool Accessible(std::uintptr_t page, bool write) {
  const int advice = write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  auto* begin = reinterpret_cast<void*>(page);
  const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return madvise(begin, size, advice) == 0 || madvise(begin, 0, advice) != 0;
}

// Devices pin the pages of a region that is not on demand. Memory that is missing, or that may not be
// written, is therefore refused. 0 or an errno. Holes are found without a look at the pages; the rights are
// those of the pages at both ends.
int CheckMemory(const void* address, std::size_t length, unsigned access) {
  if ((access & IBV_ACCESS_ON_DEMAND) != 0 || length == 0) return 0;
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(address) & ~(page - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(address) + length;
  if (end < begin) return EINVAL;
  // Does nothing but to look for holes.
  if (msync(reinterpret_cast<void*>(begin), end - begin, MS_ASYNC) != 0 && errno == ENOMEM) return EFAULT;
  const bool write = (access & IBV_ACCESS_LOCAL_WRITE) != 0;
  const std::uintptr_t last = (end - 1) & ~(page - 1);
  return Accessible(begin, write) && (last == begin || Accessible(last, write)) ? 0 : EFAULT;
}

// A registration, as the library sees it.
struct Wanted {
  void* address;
  std::size_t length;
  std::uint32_t rights;
  RegionOptions options;
  LocalRegion local;
};

Wanted WantedFor(const ibv_pd* domain, void* address, std::size_t length, std::uint64_t iova,
                 unsigned access) {
  Wanted wanted{address, length, RemoteRightsOf(access), {}, {}};
  if ((access & IBV_ACCESS_LOCAL_WRITE) != 0) wanted.rights |= kAllowLocalWrite | kRdmaReadSink;
  if ((access & IBV_ACCESS_ZERO_BASED) != 0) iova = 0;
  wanted.options = {.domain = NumberOf(domain), .remote_base = iova};
  wanted.local = {.memory = static_cast<std::byte*>(address),
                  .length = length,
                  .iova = iova,
                  .writable = (access & IBV_ACCESS_LOCAL_WRITE) != 0};
  return wanted;
}

void Describe(Region* region, ibv_pd* domain, const Wanted& made, unsigned access) {
  region->access = access;
  region->abi.pd = domain;
  region->domain = HoldOf(domain);
  region->abi.addr = made.address;
  region->abi.length = made.length;
  region->local = made.local;
  AddRegion(region->abi.lkey, region->local);
}

// Brings the pages of a piece into memory. A hint: a failure shows when the piece is used.
void Prefetch(std::byte* memory, std::size_t length, bool write) {
  const auto page = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<std::uintptr_t>(memory) & ~(page - 1);
  const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(memory) + length;
  madvise(reinterpret_cast<void*>(begin), end - begin, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

}  // namespace

std::uint32_t RemoteRightsOf(unsigned access) {
  std::uint32_t rights = 0;
  if ((access & IBV_ACCESS_REMOTE_READ) != 0) rights |= kAllowRemoteRead;
  if ((access & IBV_ACCESS_REMOTE_WRITE) != 0) rights |= kAllowRemoteWrite;
  if ((access & IBV_ACCESS_REMOTE_ATOMIC) != 0) rights |= kAllowRemoteAtomic;
  return rights;
}

int AdviseRegions(ibv_pd*, ibv_advise_mr_advice advice, std::uint32_t flags, ibv_sge* pieces,
                  std::uint32_t count) {
  const bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
  const bool known =
      write || advice == IBV_ADVISE_MR_ADVICE_PREFETCH || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT;
  if (!known || (flags & ~std::uint32_t{IBV_ADVISE_MR_FLAG_FLUSH}) != 0) return EOPNOTSUPP;
  if (count == 0) return EINVAL;
  const RegionReader reader;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (reader.Locate(pieces[i], write) == nullptr) return EFAULT;
  }
  if (advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) return 0;
  for (std::uint32_t i = 0; i < count; ++i) {
    Prefetch(reader.Locate(pieces[i], write), pieces[i].length, write);
  }
  return 0;
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;
using nd::verbs_lib::Region;

NDBROKER_PUBLIC ibv_mr* ibv_reg_mr_iova2(ibv_pd* domain, void* address, std::size_t length,
                                         std::uint64_t iova, unsigned access) {
  if (nd::verbs_lib::RefuseInForkedChild()) return nullptr;
  if (const int error = nd::verbs_lib::CheckAccess(address, length, access)) return FailWith(error);
  if (const int error = nd::verbs_lib::CheckMemory(address, length, access)) return FailWith(error);
  const auto wanted = nd::verbs_lib::WantedFor(domain, address, length, iova, access);
  auto registered = FromAbi(domain->context)
                        ->device->adapter()
                        ->Register(wanted.address, wanted.length, wanted.rights, wanted.options);
  if (!registered.ok()) return FailWith(nd::verbs_lib::ErrnoOf(registered.status()));
  auto* region = new Region;
  region->region = std::move(registered).value();
  region->abi.context = domain->context;
  region->abi.lkey = region->region.local_token();
  region->abi.rkey = region->region.remote_token();
  Describe(region, domain, wanted, access);
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
  if (nd::verbs_lib::InForkedChild()) return 0;
  Region* region = FromAbi(abi);
  // First, because another thread may get the same key at once.
  nd::verbs_lib::RemoveRegion(abi->lkey);
  if (const nd::Status status = region->region.Deregister(); !status.ok()) {
    nd::verbs_lib::AddRegion(abi->lkey, region->local);
    return nd::verbs_lib::ErrnoOf(status);
  }
  delete region;
  return 0;
}

NDBROKER_PUBLIC int ibv_rereg_mr(ibv_mr* abi, int flags, ibv_pd* domain, void* address, std::size_t length,
                                 int access) {
  if (nd::verbs_lib::RefuseInForkedChild()) return IBV_REREG_MR_ERR_CMD;
  Region* region = FromAbi(abi);
  const bool moves = (flags & IBV_REREG_MR_CHANGE_TRANSLATION) != 0;
  const bool changes_domain = (flags & IBV_REREG_MR_CHANGE_PD) != 0;
  if (flags == 0 || (flags & ~int{IBV_REREG_MR_FLAGS_SUPPORTED}) != 0 ||
      (moves && (address == nullptr || length == 0)) || (changes_domain && domain == nullptr)) {
    errno = EINVAL;
    return IBV_REREG_MR_ERR_INPUT;
  }
  const unsigned rights =
      (flags & IBV_REREG_MR_CHANGE_ACCESS) != 0 ? static_cast<unsigned>(access) : region->access;
  void* const memory = moves ? address : abi->addr;
  const std::size_t size = moves ? length : abi->length;
  const std::uint64_t iova = moves ? reinterpret_cast<std::uintptr_t>(address) : region->local.iova;
  ibv_pd* const owner = changes_domain ? domain : abi->pd;
  if (const int error = nd::verbs_lib::CheckAccess(memory, size, rights)) {
    errno = error;
    return IBV_REREG_MR_ERR_INPUT;
  }
  if (const int error = nd::verbs_lib::CheckMemory(memory, size, rights)) {
    errno = error;
    return IBV_REREG_MR_ERR_CMD;
  }
  const auto wanted = nd::verbs_lib::WantedFor(owner, memory, size, iova, rights);
  const nd::Status status =
      region->region.Change(wanted.address, wanted.length, wanted.rights, wanted.options);
  if (!status.ok()) {
    errno = nd::verbs_lib::ErrnoOf(status);
    return IBV_REREG_MR_ERR_CMD;
  }
  Describe(region, owner, wanted, rights);
  return 0;
}
