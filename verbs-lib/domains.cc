// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/domains.h"

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "verbs-lib/device.h"
#include "verbs-lib/export.h"
#include "verbs-lib/forked.h"

namespace nd::verbs_lib {
namespace {

struct ThreadDomain {
  ibv_td abi{};
  Holds holds;
};

struct Domain {
  ibv_pd abi{};
  std::uint32_t number = 0;
  Holds holds;
  Hold inner, thread;  // Of a parent domain.
};

Domain* DomainOf(ibv_pd* domain) {
  return reinterpret_cast<Domain*>(domain);
}

std::uint32_t NextNumber() {
  static std::atomic<std::uint32_t> last{0};
  std::uint32_t next;
  do {
    next = ++last;
  } while (next == 0);
  return next;
}
ThreadDomain* DomainOf(ibv_td* domain) {
  return reinterpret_cast<ThreadDomain*>(domain);
}

}  // namespace

Hold HoldOf(ibv_pd* domain) {
  return Hold(&DomainOf(domain)->holds);
}

std::uint32_t NumberOf(const ibv_pd* domain) {
  return reinterpret_cast<const Domain*>(domain)->number;
}

ibv_td* AllocThreadDomain(ibv_context* context, ibv_td_init_attr* wanted) {
  if (wanted->comp_mask != 0) return FailWith(EINVAL);
  auto* domain = new ThreadDomain;
  domain->abi.context = context;
  return &domain->abi;
}

int DeallocThreadDomain(ibv_td* abi) {
  if (DomainOf(abi)->holds.any()) return EBUSY;
  delete DomainOf(abi);
  return 0;
}

// The allocators of a parent domain are for memory that a device shares with the program. There is none, so
// they are never called.
ibv_pd* AllocParentDomain(ibv_context* context, ibv_parent_domain_init_attr* wanted) {
  constexpr std::uint32_t kKnown =
      IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
  if (wanted->pd == nullptr || (wanted->comp_mask & ~kKnown) != 0) return FailWith(EINVAL);
  auto* domain = new Domain;
  domain->abi.context = context;
  domain->inner = HoldOf(wanted->pd);
  domain->number = NumberOf(wanted->pd);
  if (wanted->td != nullptr) domain->thread = Hold(&DomainOf(wanted->td)->holds);
  return &domain->abi;
}

}  // namespace nd::verbs_lib

NDBROKER_PUBLIC ibv_pd* ibv_alloc_pd(ibv_context* context) {
  if (nd::verbs_lib::FromAbi(context)->device->adapter() == nullptr) return nullptr;
  auto* domain = new nd::verbs_lib::Domain;
  domain->abi.context = context;
  domain->number = nd::verbs_lib::NextNumber();
  return &domain->abi;
}

NDBROKER_PUBLIC int ibv_dealloc_pd(ibv_pd* abi) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  auto* domain = nd::verbs_lib::DomainOf(abi);
  if (domain->holds.any()) return EBUSY;
  delete domain;
  return 0;
}
