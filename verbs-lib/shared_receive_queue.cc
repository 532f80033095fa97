// SPDX-License-Identifier: Apache-2.0
// Shared receive queues.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/export.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/queue_pair.h"
#include "verbs-lib/regions.h"

namespace nd::verbs_lib {
namespace {

int PostToLibrary(nd::SharedReceiveQueue& queue, std::uint64_t id, std::span<const ibv_sge> pieces) {
  return ErrnoOf(queue.Receive(ContextOf(id), SgesOf(LocalPieces(pieces).get())));
}

}  // namespace

int SharedReceiveQueue::Post(const ibv_recv_wr& request) {
  if (request.num_sge < 0) return EINVAL;
  const std::span pieces(request.sg_list, static_cast<std::size_t>(request.num_sge));
  if (use.load(std::memory_order_acquire) == Use::kConnected)
    return PostToLibrary(queue, request.wr_id, pieces);
  std::lock_guard lock(mutex);
  if (use.load() == Use::kConnected) return PostToLibrary(queue, request.wr_id, pieces);
  return own.Post(request);
}

int SharedReceiveQueue::UseFor(Use wanted) {
  std::lock_guard lock(mutex);
  if (use.load() != Use::kUndecided) return use.load() == wanted ? 0 : EINVAL;
  for (; wanted == Use::kConnected && !own.empty(); own.Pop()) {
    if (const int error = PostToLibrary(queue, own.id(), own.pieces())) return error;
  }
  use.store(wanted, std::memory_order_release);
  return wanted == Use::kConnected && limit.load() != 0 ? ErrnoOf(ArmLibrary()) : 0;
}

bool SharedReceiveQueue::TakeForDatagram(const std::function<bool(ReceiveRing&)>& fill) {
  bool filled, low;
  {
    std::lock_guard lock(mutex);
    filled = fill(own);
    low = own.size() < limit.load();
  }
  if (low) alarm->Ring();
  return filled;
}

Status SharedReceiveQueue::ArmLibrary() {
  return queue.SetLimit(limit.load(), [alarm = alarm] { alarm->Ring(); });
}

int SharedReceiveQueue::SetLimit(std::uint32_t wanted) {
  if (wanted > depth) return EINVAL;
  std::lock_guard lock(mutex);
  limit.store(wanted);
  return use.load() == Use::kConnected ? ErrnoOf(ArmLibrary()) : 0;
}

void SharedReceiveQueue::Alarm::Ring() {
  std::lock_guard lock(mutex);
  if (queue == nullptr || queue->limit.exchange(0) == 0) return;
  ibv_async_event event{};
  event.event_type = IBV_EVENT_SRQ_LIMIT_REACHED;
  event.element.srq = &queue->abi;
  FromAbi(queue->abi.context)->Tell(event);
}

ibv_srq* CreateSrqEx(ibv_context* context, ibv_srq_init_attr_ex* wanted) {
  if (RefuseInForkedChild()) return nullptr;
  const bool basic = (wanted->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || wanted->srq_type == IBV_SRQT_BASIC;
  if (!basic) return FailWith(EOPNOTSUPP);
  if ((wanted->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || wanted->pd == nullptr) return FailWith(EINVAL);
  const std::uint32_t max_sge = std::max(wanted->attr.max_sge, 1u);
  auto made = FromAbi(context)->device->adapter()->CreateSharedReceiveQueue(wanted->attr.max_wr, max_sge);
  if (!made.ok()) return FailWith(ErrnoOf(made.status()));
  auto* queue = new SharedReceiveQueue(wanted->attr.max_wr, max_sge);
  queue->queue = std::move(made).value();
  queue->alarm->queue = queue;
  wanted->attr.max_sge = max_sge;
  queue->abi.context = context;
  queue->abi.srq_context = wanted->srq_context;
  queue->abi.pd = wanted->pd;
  queue->domain = HoldOf(wanted->pd);
  pthread_mutex_init(&queue->abi.mutex, nullptr);
  pthread_cond_init(&queue->abi.cond, nullptr);
  return &queue->abi;
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::FromAbi;

NDBROKER_PUBLIC ibv_srq* ibv_create_srq(ibv_pd* domain, ibv_srq_init_attr* wanted) {
  ibv_srq_init_attr_ex extended{};
  extended.srq_context = wanted->srq_context;
  extended.attr = wanted->attr;
  extended.comp_mask = IBV_SRQ_INIT_ATTR_PD;
  extended.pd = domain;
  ibv_srq* made = nd::verbs_lib::CreateSrqEx(domain->context, &extended);
  if (made != nullptr) wanted->attr = extended.attr;
  return made;
}

NDBROKER_PUBLIC int ibv_modify_srq(ibv_srq* abi, ibv_srq_attr* attributes, int mask) {
  if ((mask & IBV_SRQ_MAX_WR) != 0) return EOPNOTSUPP;
  return (mask & IBV_SRQ_LIMIT) != 0 ? FromAbi(abi)->SetLimit(attributes->srq_limit) : 0;
}

NDBROKER_PUBLIC int ibv_query_srq(ibv_srq* abi, ibv_srq_attr* attributes) {
  attributes->max_wr = FromAbi(abi)->depth;
  attributes->max_sge = FromAbi(abi)->max_sge;
  attributes->srq_limit = FromAbi(abi)->limit.load();
  return 0;
}

NDBROKER_PUBLIC int ibv_destroy_srq(ibv_srq* abi) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  auto* queue = FromAbi(abi);
  if (queue->holds.any()) return EBUSY;
  nd::Request closing;
  const nd::Status status = queue->queue.Close(&closing);
  if (!status.ok() && !status.pending()) return nd::verbs_lib::ErrnoOf(status);
  {
    std::lock_guard lock(queue->alarm->mutex);
    queue->alarm->queue = nullptr;
  }
  FromAbi(abi->context)->Forget(abi);
  pthread_mutex_destroy(&abi->mutex);
  pthread_cond_destroy(&abi->cond);
  delete queue;
  return 0;
}
