// SPDX-License-Identifier: Apache-2.0
// The life of a queue pair: creation, states, attributes, destruction. post.cc has the data path.
#include "verbs-lib/queue_pair.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "verbs-lib/cm_listener.h"
#include "verbs-lib/device.h"
#include "verbs-lib/domains.h"
#include "verbs-lib/export.h"
#include "verbs-lib/fault_guard.h"
#include "verbs-lib/forked.h"
#include "verbs-lib/later.h"
#include "verbs-lib/memory.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/qp_state_rules.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

bool MayChange(ibv_qp_state from, ibv_qp_state to) {
  switch (to) {
    case IBV_QPS_RESET:
    case IBV_QPS_ERR:
      return true;
    case IBV_QPS_INIT:
      return from == IBV_QPS_RESET || from == IBV_QPS_INIT;
    case IBV_QPS_RTR:
      return from == IBV_QPS_INIT;
    case IBV_QPS_RTS:
      return from == IBV_QPS_RTR || from == IBV_QPS_RTS || from == IBV_QPS_SQD;
    case IBV_QPS_SQD:
      return from == IBV_QPS_RTS || from == IBV_QPS_SQD;
    default:
      return false;
  }
}

// Copies the fields that `mask` names.
void Merge(const ibv_qp_attr& from, int mask, ibv_qp_attr* to) {
  const auto take = [&](int bit, auto member) {
    if ((mask & bit) != 0) to->*member = from.*member;
  };
  take(IBV_QP_ACCESS_FLAGS, &ibv_qp_attr::qp_access_flags);
  take(IBV_QP_PKEY_INDEX, &ibv_qp_attr::pkey_index);
  take(IBV_QP_PORT, &ibv_qp_attr::port_num);
  take(IBV_QP_QKEY, &ibv_qp_attr::qkey);
  take(IBV_QP_AV, &ibv_qp_attr::ah_attr);
  take(IBV_QP_PATH_MTU, &ibv_qp_attr::path_mtu);
  take(IBV_QP_TIMEOUT, &ibv_qp_attr::timeout);
  take(IBV_QP_RETRY_CNT, &ibv_qp_attr::retry_cnt);
  take(IBV_QP_RNR_RETRY, &ibv_qp_attr::rnr_retry);
  take(IBV_QP_RQ_PSN, &ibv_qp_attr::rq_psn);
  take(IBV_QP_MAX_QP_RD_ATOMIC, &ibv_qp_attr::max_rd_atomic);
  take(IBV_QP_MIN_RNR_TIMER, &ibv_qp_attr::min_rnr_timer);
  take(IBV_QP_SQ_PSN, &ibv_qp_attr::sq_psn);
  take(IBV_QP_MAX_DEST_RD_ATOMIC, &ibv_qp_attr::max_dest_rd_atomic);
  take(IBV_QP_DEST_QPN, &ibv_qp_attr::dest_qp_num);
}

// True when an attribute names a port, a P_Key or a GID that the device does not have.
bool PointsNowhere(const QueuePair& queue_pair, const ibv_qp_attr& attributes, int mask) {
  const Device& device = *FromAbi(queue_pair.abi.qp_base.context)->device;
  return ((mask & IBV_QP_PORT) != 0 && attributes.port_num != 1) ||
         ((mask & IBV_QP_PKEY_INDEX) != 0 && attributes.pkey_index != 0) ||
         ((mask & IBV_QP_AV) != 0 && attributes.ah_attr.is_global != 0 &&
          attributes.ah_attr.grh.sgid_index >= device.info.addresses.size());
}

// 0, or the errno of capabilities that the device does not have.
int CheckCapabilities(const AdapterInfo& info, const ibv_qp_cap& cap, bool has_srq) {
  const bool receives_fit = has_srq || (cap.max_recv_wr <= info.max_receive_queue_depth &&
                                        cap.max_recv_sge <= info.max_receive_sge);
  return receives_fit && cap.max_send_wr <= info.max_initiator_queue_depth &&
                 cap.max_send_sge <= info.max_initiator_sge &&
                 cap.max_inline_data <= info.max_inline_data_size
             ? 0
             : EINVAL;
}

}  // namespace

nd::QueuePair QueuePair::pair(bool of_sends) {
  std::lock_guard lock(mutex);
  return of_sends ? sender : real;
}

Result<nd::QueuePair> QueuePair::Open() {
  QueuePairOptions options;
  options.receive_cq = &receive_cq->queue;
  options.initiator_cq = &send_cq->queue;
  if (init.srq != nullptr) options.shared_receive_queue = &FromAbi(init.srq)->queue;
  options.context = reinterpret_cast<void*>(static_cast<std::uintptr_t>(base().qp_num));
  // A device has no queue of length 0; programs that only receive ask for one.
  options.receive_depth = std::max(init.cap.max_recv_wr, 1u);
  options.initiator_depth = std::max(init.cap.max_send_wr, 1u);
  options.max_receive_sge = std::max(init.cap.max_recv_sge, 1u);
  options.max_initiator_sge = std::max(init.cap.max_send_sge, 1u);
  options.inline_data_size = init.cap.max_inline_data;
  auto made = FromAbi(base().context)->device->adapter()->CreateQueuePair(options);
  if (!made.ok()) return made;
  // The state of the ABI says when requests may be posted.
  if (const Status status = made->AllowEarlyRequests(); !status.ok()) return status;
  return made;
}

Status QueuePair::Renew() {
  if (datagrams) {
    datagrams->Reset();
    return {};
  }
  DropSecond();
  auto made = Open();
  if (!made.ok()) return made.status();
  nd::QueuePair former;
  {
    std::lock_guard lock(mutex);
    former = std::exchange(real, std::move(made).value());
    sender = real;
    sender_by_number = by_number;
  }
  if (former.impl()) static_cast<void>(former.Close());
  has_rights = false;
  return Protect(attributes, false);
}

Status QueuePair::SendThrough(std::shared_ptr<ByNumber> second) {
  auto made = Open();
  if (!made.ok()) return made.status();
  // No memory is reached through the end that only sends.
  const std::uint32_t domain = NumberOf(base().pd);
  if (const Status status = made->SetProtection({domain, domain, 0}); !status.ok()) return status;
  std::lock_guard lock(mutex);
  sender = std::move(made).value();
  sender_by_number = std::move(second);
  return {};
}

void QueuePair::DropSecond() {
  if (!has_second()) return;
  nd::QueuePair second;
  std::shared_ptr<ByNumber> connection;
  {
    std::lock_guard lock(mutex);
    second = std::exchange(sender, real);
    connection = std::exchange(sender_by_number, by_number);
  }
  static_cast<void>(second.Flush());  // The goodbye would wait for its requests.
  connection->Leave([] {});           // Gives its port back, too.
  CloseInBackground(std::move(second));
}

void QueuePair::LeavePeer() {
  if (!by_number) return;
  std::shared_ptr<ByNumber> connection;
  {
    std::lock_guard lock(mutex);
    connection = sender_by_number;
  }
  if (connection != by_number) connection->Leave();
  by_number->Leave();
}

Status QueuePair::Protect(const ibv_qp_attr& now, bool has_rights_now) {
  if (datagrams) return {};
  Protection protection;
  protection.domain = NumberOf(base().pd);
  protection.receive_domain = init.srq != nullptr ? NumberOf(init.srq->pd) : protection.domain;
  if (has_rights_now) protection.remote_access = RemoteRightsOf(now.qp_access_flags);
  return pair().SetProtection(protection);
}

void QueuePair::SetState(ibv_qp_state state) {
  // Other threads post meanwhile.
  __atomic_store_n(&base().state, state, __ATOMIC_RELAXED);
}

void QueuePair::OnEstablished() {
  if (state() != IBV_QPS_ERR) SetState(IBV_QPS_RTS);
}

void QueuePair::Flush() {
  const bool first = std::atomic_ref(base().state).exchange(IBV_QPS_ERR) != IBV_QPS_ERR;
  if (datagrams) return datagrams->Flush();
  FlushAll(pair(), pair(true));
  // It takes no receive of the shared queue any more.
  if (first && base().srq != nullptr) Tell(IBV_EVENT_QP_LAST_WQE_REACHED);
}

void QueuePair::FlushAll(nd::QueuePair receives, nd::QueuePair sends) {
  ReportKeptBack();
  static_cast<void>(receives.Flush());
  if (sends.impl() != receives.impl()) static_cast<void>(sends.Flush());
}

void QueuePair::FailSoon() {
  if (std::atomic_ref(base().state).exchange(IBV_QPS_ERR) == IBV_QPS_ERR) return;
  // The program may reset the queue pair before that thread runs.
  RunLater({}, [number = base().qp_num, receives = pair(), sends = pair(true)] {
    const auto self = FindQueuePair(number);
    if (!self || self->state() != IBV_QPS_ERR) return;
    self->FlushAll(receives, sends);
    if (self->base().srq != nullptr) self->Tell(IBV_EVENT_QP_LAST_WQE_REACHED);
  });
}

bool QueuePair::HasUnpolled() {
  const std::uint32_t number = base().qp_num;
  // The completion queues live as long as the queue pair is not destroyed, and EndEvents() waits.
  std::lock_guard lock(events_mutex_);
  if (events_ended_ || datagrams) return false;
  return receive_cq->HasUnpolled(number) || (send_cq != receive_cq && send_cq->HasUnpolled(number));
}

void QueuePair::Tell(ibv_event_type type) {
  std::lock_guard lock(events_mutex_);
  if (events_ended_) return;
  ibv_async_event event{};
  event.event_type = type;
  event.element.qp = &base();
  FromAbi(base().context)->Tell(event);
}

void QueuePair::EndEvents() {
  {
    std::lock_guard lock(events_mutex_);
    events_ended_ = true;
  }
  FromAbi(base().context)->Forget(&base());
}

ibv_qp* CreateQpEx(ibv_context* context, ibv_qp_init_attr_ex* wanted) {
  if (RefuseInForkedChild()) return nullptr;
  const AdapterInfo& info = FromAbi(context)->device->info;
  if ((wanted->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || wanted->pd == nullptr || wanted->send_cq == nullptr ||
      wanted->recv_cq == nullptr) {
    return FailWith(EINVAL);
  }
  if (const int error = CheckCapabilities(info, wanted->cap, wanted->srq != nullptr)) return FailWith(error);
  const bool datagrams = wanted->qp_type == IBV_QPT_UD && !ActsAsIwarp();
  const bool connected = wanted->qp_type == IBV_QPT_RC || (wanted->qp_type == IBV_QPT_UC && !ActsAsIwarp());
  const bool extended = (wanted->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
  constexpr std::uint32_t kKnown =
      IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
  const bool has_flags =
      (wanted->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && wanted->create_flags != 0;
  if (!(connected || datagrams) || (wanted->comp_mask & ~kKnown) != 0 || has_flags ||
      (extended && (wanted->send_ops_flags & ~SendOpsOf(wanted->qp_type)) != 0)) {
    return FailWith(EOPNOTSUPP);
  }
  if (datagrams && (info.flags & kAdapterNoDatagrams) != 0) {
    std::fprintf(stderr,
                 "ndbroker: this program wants a UD queue pair; 'datagrams = false' in the broker's "
                 "configuration forbids them on %s\n",
                 info.name.c_str());
    return FailWith(EOPNOTSUPP);
  }
  if (wanted->srq != nullptr) {
    using Use = SharedReceiveQueue::Use;
    if (const int error = FromAbi(wanted->srq)->UseFor(datagrams ? Use::kDatagrams : Use::kConnected)) {
      return FailWith(error);
    }
  }
  auto made = std::make_shared<QueuePair>();
  ibv_qp& base = made->base();
  base.context = context;
  base.qp_context = wanted->qp_context;
  base.pd = wanted->pd;
  base.send_cq = wanted->send_cq;
  base.recv_cq = wanted->recv_cq;
  base.srq = wanted->srq;
  base.state = IBV_QPS_RESET;
  base.qp_type = wanted->qp_type;
  pthread_mutex_init(&base.mutex, nullptr);
  pthread_cond_init(&base.cond, nullptr);
  std::memcpy(&made->init, wanted, sizeof made->init);
  made->send_cq = FromAbi(wanted->send_cq);
  made->receive_cq = FromAbi(wanted->recv_cq);
  made->needs.push_back(HoldOf(wanted->pd));
  made->needs.emplace_back(&made->send_cq->holds);
  made->needs.emplace_back(&made->receive_cq->holds);
  if (wanted->srq != nullptr) made->needs.emplace_back(&FromAbi(wanted->srq)->holds);
  if (extended) OfferExtendedPosts(made.get(), wanted->send_ops_flags);
  if (datagrams) {
    made->datagrams = DatagramPair::Open(made.get());
    if (!made->datagrams) return nullptr;
    base.qp_num = base.handle = made->datagrams->number();
    // Another queue pair of this process may have the number on other addresses.
    if (!AddNumber(base.qp_num, made)) return FailWith(EADDRINUSE);
    made->receive_cq->AddSource(made->datagrams.get());
    return &base;
  }
  if (!ActsAsIwarp()) made->by_number = ByNumber::Make(FromAbi(context)->device);
  base.qp_num = base.handle = AddNumber(made, made->by_number ? made->by_number->port() : 0);
  if (base.qp_num == 0) return FailWith(ENOMEM);
  if (const Status status = made->Renew(); !status.ok()) {
    RemoveNumber(base.qp_num);
    return FailWith(ErrnoOf(status));
  }
  return &base;
}

}  // namespace nd::verbs_lib

using nd::verbs_lib::FailWith;
using nd::verbs_lib::FromAbi;

NDBROKER_PUBLIC ibv_qp* ibv_create_qp(ibv_pd* domain, ibv_qp_init_attr* wanted) {
  ibv_qp_init_attr_ex extended{};
  std::memcpy(&extended, wanted, sizeof *wanted);
  extended.comp_mask = IBV_QP_INIT_ATTR_PD;
  extended.pd = domain;
  return nd::verbs_lib::CreateQpEx(domain->context, &extended);
}

NDBROKER_PUBLIC int ibv_modify_qp(ibv_qp* abi, ibv_qp_attr* attributes, int mask) {
  if (nd::verbs_lib::RefuseInForkedChild()) return ENODEV;
  const nd::verbs_lib::MemoryAccess access;
  auto* queue_pair = FromAbi(abi);
  const std::lock_guard changes(queue_pair->changes_mutex);
  const ibv_qp_state now = queue_pair->state();
  const ibv_qp_state state = (mask & IBV_QP_STATE) != 0 ? attributes->qp_state : now;
  if ((mask & IBV_QP_CUR_STATE) != 0 && attributes->cur_qp_state != now) return EINVAL;
  // rdma_disconnect asks for SQD on an RNIC, also after the end of the connection.
  if (nd::verbs_lib::ActsAsIwarp() && state == IBV_QPS_SQD && now == IBV_QPS_ERR) return 0;
  // The kernel leaves queue pairs of iWARP to their driver.
  if (nd::verbs_lib::ActsAsIwarp() ? !nd::verbs_lib::MayChange(now, state)
                                   : !nd::verbs_lib::MayModify(abi->qp_type, now, state, mask)) {
    return EINVAL;
  }
  if (nd::verbs_lib::PointsNowhere(*queue_pair, *attributes, mask)) return EINVAL;
  // Before the peer can be there.
  const bool tells_rights = (mask & IBV_QP_ACCESS_FLAGS) != 0;
  if (tells_rights) {
    const nd::Status status = queue_pair->Protect(*attributes, true);
    if (!status.ok()) return nd::verbs_lib::ErrnoOf(status);
  }
  if ((mask & IBV_QP_DEST_QPN) != 0) {
    if (const int error = nd::verbs_lib::ExpectPeer(queue_pair, *attributes)) {
      if (tells_rights) {
        static_cast<void>(queue_pair->Protect(queue_pair->attributes, queue_pair->has_rights));
      }
      return error;
    }
  }
  queue_pair->has_rights |= tells_rights;
  nd::verbs_lib::Merge(*attributes, mask, &queue_pair->attributes);
  if ((mask & IBV_QP_STATE) == 0) return 0;
  if (state == IBV_QPS_RESET && queue_pair->state() != IBV_QPS_RESET) {
    queue_pair->LeavePeer();
    queue_pair->ForgetKeptBack();
    if (const nd::Status status = queue_pair->Renew(); !status.ok()) return nd::verbs_lib::ErrnoOf(status);
    queue_pair->send_cq->Purge(abi->qp_num);
    if (queue_pair->receive_cq != queue_pair->send_cq) queue_pair->receive_cq->Purge(abi->qp_num);
  }
  if (state == IBV_QPS_ERR) {
    queue_pair->Flush();
    queue_pair->LeavePeer();
  } else {
    queue_pair->SetState(state);
  }
  return 0;
}

NDBROKER_PUBLIC int ibv_query_qp(ibv_qp* abi, ibv_qp_attr* attributes, int, ibv_qp_init_attr* init) {
  auto* queue_pair = FromAbi(abi);
  // A forked child has the mutex as it was; nothing is changed there.
  std::unique_lock changes(queue_pair->changes_mutex, std::defer_lock);
  if (!nd::verbs_lib::InForkedChild()) changes.lock();
  *attributes = queue_pair->attributes;
  attributes->qp_state = attributes->cur_qp_state = queue_pair->state();
  attributes->cap = queue_pair->init.cap;
  *init = queue_pair->init;
  return 0;
}

NDBROKER_PUBLIC int ibv_destroy_qp(ibv_qp* abi) {
  if (nd::verbs_lib::InForkedChild()) return 0;
  auto* queue_pair = FromAbi(abi);
  const std::uint32_t number = abi->qp_num;
  const std::shared_ptr<nd::verbs_lib::QueuePair> kept = nd::verbs_lib::FindQueuePair(number);
  if (kept.get() != queue_pair) return EINVAL;
  nd::verbs_lib::RemoveNumber(number);
  if (queue_pair->datagrams) {
    queue_pair->receive_cq->RemoveSource(queue_pair->datagrams.get());
    queue_pair->datagrams->Close();
  } else {
    queue_pair->ForgetKeptBack();
    nd::verbs_lib::CloseQueuePair(queue_pair);
  }
  queue_pair->send_cq->Purge();
  if (queue_pair->receive_cq != queue_pair->send_cq) queue_pair->receive_cq->Purge();
  queue_pair->EndEvents();
  queue_pair->needs.clear();
  return 0;
}
