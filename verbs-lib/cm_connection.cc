// SPDX-License-Identifier: Apache-2.0
// Connections: the commands of rdma_cm on the two phases of Network Direct.
//
// Active, RoCE: CONNECT is Connect and ends in CONNECT_RESPONSE; librdmacm moves the queue pair, and its
// ACCEPT without parameters is CompleteConnect. Active, iWARP: CONNECT is both and ends in ESTABLISHED.
// Passive: ACCEPT is Accept and ends in ESTABLISHED.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <utility>

#include "verbs-lib/cm_id.h"
#include "verbs-lib/later.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/settings.h"

namespace nd::verbs_lib {
namespace {

// Programs connect a second time before the other side listens again (perftest -R): a refusal for want of a
// listener is held back, and the connect repeated, for this long.
constexpr int kListenerTries = 25;
constexpr auto kBetweenTries = std::chrono::milliseconds(20);

// What the peer did before it disconnected arrives before the event, as on devices, whose events take longer
// than their data: programs destroy the queue pair at the event, and libfabric looks for completions
// afterwards. The event therefore waits for the program's polls, but not for longer than this.
constexpr int kPollTries = 100;
constexpr auto kBetweenPolls = std::chrono::milliseconds(1);

// Reject reasons of InfiniBand's connection manager.
constexpr int kNoResources = 3, kInvalidServiceId = 8, kConsumerDefined = 28;

// The largest retry counter of InfiniBand; for receives it means for ever.
constexpr std::uint8_t kEndlessRetries = 7;

// Returns true when there is no listener at the moment.
bool WantsListener(const Status& status) {
  return status.detail() == Detail::kNoListener || status.detail() == Detail::kPaused ||
         status.detail() == Detail::kListenerClosed;
}

int RejectReason(const Status& status) {
  if (ActsAsIwarp()) return WantsListener(status) ? -ECONNREFUSED : -ECONNRESET;
  if (WantsListener(status)) return kInvalidServiceId;
  return status.detail() == Detail::kBacklogFull ? kNoResources : kConsumerDefined;
}

}  // namespace

void CmId::SetOptions(const rdma_ucm_conn_param& parameters) {
  const auto* data = reinterpret_cast<const std::byte*>(parameters.private_data);
  private_data_.assign(data, data + parameters.private_data_len);
  options_.private_data = private_data_;
  options_.limits.inbound =
      std::min<std::uint32_t>(parameters.responder_resources, device_->info.max_inbound_read_limit);
  options_.limits.outbound =
      std::min<std::uint32_t>(parameters.initiator_depth, device_->info.max_outbound_read_limit);
}

Status CmId::TakeQueuePair(const rdma_ucm_conn_param& parameters) {
  queue_pair_ = FindQueuePair(parameters.qp_num);
  // UCX names a UD queue pair, of which it needs only the number.
  if (queue_pair_ && queue_pair_->datagrams) queue_pair_ = nullptr;
  if (queue_pair_) {
    used_ = queue_pair_->pair();
    // rdma_cm: how often the peer repeats a Send that finds no receive here. 7 means without end. A smaller
    // number leaves the time of this library, which is longer than that of most devices.
    if (parameters.rnr_retry_count < kEndlessRetries) return {};
    return used_.SetReceivePatience(std::chrono::nanoseconds::max());
  }
  // The program keeps its queue pair to itself, or has none.
  return MakeInnerPair();
}

Status CmId::MakeInnerPair() {
  auto queue = device_->adapter()->CreateCompletionQueue(1);
  if (!queue.ok()) return queue.status();
  inner_queue_ = std::move(queue).value();
  QueuePairOptions options;
  options.receive_cq = options.initiator_cq = &inner_queue_;
  options.receive_depth = options.initiator_depth = 1;
  auto made = device_->adapter()->CreateQueuePair(options);
  if (!made.ok()) return made.status();
  used_ = std::move(made).value();
  return {};
}

int CmId::Connect(const rdma_ucm_conn_param& parameters) {
  if (!connector_bound_ || passive_ || !connector_.impl() || asked_) return EINVAL;
  if (for_datagrams()) {
    const int error = Ask(parameters);
    asked_ = error == 0;
    return error;
  }
  if (const Status status = TakeQueuePair(parameters); !status.ok()) return ErrnoOf(status);
  SetOptions(parameters);
  asked_ = true;
  StartConnect(1);
  return 0;
}

void CmId::StartConnect(int attempt) {
  Connector connector;
  {
    std::lock_guard lock(mutex_);
    if (dead_) return;
    connector = connector_;
  }
  Begin([&](Request* request) { return connector.Connect(used_, remote_, options_, request); },
        [weak = weak_from_this(), attempt](const Status& status) {
          if (auto self = weak.lock()) self->OnConnected(status, attempt);
        });
}

void CmId::OnConnected(const Status& status, int attempt) {
  rdma_ucm_conn_param parameters{};
  if (status.ok()) {
    if (for_datagrams()) return OnAnswered();
    FillConnectionData(&parameters);
    if (!ActsAsIwarp()) {
      Tell(CmEvent::kConnectResponse, 0, &parameters);
      return;
    }
    Begin([this](Request* request) { return connector_.CompleteConnect(request); },
          [weak = weak_from_this(), parameters](const Status& completed) {
            auto self = weak.lock();
            if (!self) return;
            if (!completed.ok()) {
              self->Tell(CmEvent::kConnectError, -ErrnoOf(completed));
              return;
            }
            self->OnEstablished();
            self->Tell(CmEvent::kEstablished, 0, &parameters);
            self->AwaitDisconnect();
          });
    return;
  }
  switch (status.code()) {
    case StatusCode::kConnectionRefused:
      if (WantsListener(status) && attempt < kListenerTries) {
        RunLater(kBetweenTries, [weak = weak_from_this(), attempt] {
          if (auto self = weak.lock()) self->StartConnect(attempt + 1);
        });
        return;
      }
      if (for_datagrams()) return OnRefused(status, WantsListener(status));
      if (status.detail() == Detail::kPeerRejected) FillConnectionData(&parameters);
      Tell(CmEvent::kRejected, RejectReason(status), &parameters);
      return;
    case StatusCode::kIoTimeout:
    case StatusCode::kNetworkUnreachable:
    case StatusCode::kHostUnreachable:
      Tell(CmEvent::kUnreachable, -ErrnoOf(status));
      return;
    case StatusCode::kDeviceRemoved:
      Tell(CmEvent::kDeviceRemoval, 0);
      return;
    case StatusCode::kCanceled:
      return;  // The program destroyed the identifier.
    default:
      Tell(CmEvent::kConnectError, -ErrnoOf(status));
  }
}

int CmId::Accept(std::uint64_t uid, const rdma_ucm_conn_param& parameters) {
  if (!connector_.impl()) return EINVAL;
  if (parameters.valid == 0) {
    const Status status = connector_.CompleteConnect();
    if (!status.ok()) return ErrnoOf(status);
    OnEstablished();
    AwaitDisconnect();
    return 0;
  }
  if (!passive_ || answered_) return EINVAL;
  if (for_datagrams()) return Answer(uid, parameters);
  if (const Status status = TakeQueuePair(parameters); !status.ok()) return ErrnoOf(status);
  SetOptions(parameters);
  answered_ = true;
  {
    std::lock_guard lock(mutex_);
    uid_ = uid;
  }
  Begin([this](Request* request) { return connector_.Accept(used_, options_, request); },
        [weak = weak_from_this()](const Status& status) {
          auto self = weak.lock();
          if (!self) return;
          if (!status.ok()) {
            const bool withdrawn = status == StatusCode::kConnectionAborted;
            self->Tell(withdrawn ? CmEvent::kRejected : CmEvent::kConnectError,
                       withdrawn ? RejectReason(status) : -ErrnoOf(status));
            return;
          }
          self->OnEstablished();
          self->Tell(CmEvent::kEstablished, 0);
          self->AwaitDisconnect();
        });
  return 0;
}

int CmId::Reject(PrivateData data) {
  if (!connector_.impl() || !passive_ || std::exchange(answered_, true)) return EINVAL;
  return ErrnoOf(connector_.Reject(data));
}

void CmId::OnEstablished() {
  {
    std::lock_guard lock(mutex_);
    established_ = true;
  }
  if (queue_pair_) queue_pair_->OnEstablished();
}

void CmId::AwaitDisconnect() {
  Connector connector;
  {
    std::lock_guard lock(mutex_);
    if (dead_) return;
    connector = connector_;
  }
  Begin([&](Request* request) { return connector.NotifyDisconnect(request); },
        [weak = weak_from_this()](const Status& status) {
          auto self = weak.lock();
          if (!self) return;
          // The connection does not depend on the broker.
          if (status == StatusCode::kDeviceRemoved && status.detail() == Detail::kBrokerUnreachable) {
            return RunLater(kBetweenTries, [weak] {
              if (auto again = weak.lock()) again->AwaitDisconnect();
            });
          }
          self->OnDisconnected();
        });
}

void CmId::OnDisconnected() {
  {
    std::lock_guard lock(mutex_);
    if (!established_ || std::exchange(end_told_, true)) return;
  }
  TellOfTheEnd(1);
}

void CmId::TellOfTheEnd(int attempt) {
  if (queue_pair_ && attempt < kPollTries && queue_pair_->HasUnpolled()) {
    return RunLater(kBetweenPolls, [weak = weak_from_this(), attempt] {
      if (auto self = weak.lock()) self->TellOfTheEnd(attempt + 1);
    });
  }
  // librdmacm leaves the queue pair of an RNIC to the kernel, which flushes it.
  if (ActsAsIwarp() && queue_pair_) queue_pair_->Flush();
  Tell(CmEvent::kDisconnected, 0);
}

int CmId::Disconnect() {
  Connector connector;
  {
    std::lock_guard lock(mutex_);
    if (!connector_.impl()) return EINVAL;
    if (!established_) return EINVAL;
    connector = connector_;
  }
  if (ActsAsIwarp() && queue_pair_) queue_pair_->Flush();
  Begin([&](Request* request) { return connector.Disconnect(request); },
        [weak = weak_from_this()](const Status&) {
          if (auto self = weak.lock()) self->OnDisconnected();
        });
  return 0;
}

void CmId::FillConnectionData(rdma_ucm_conn_param* out) {
  std::uint32_t inbound = 0, outbound = 0;
  if (connector_.GetReadLimits(&inbound, &outbound).ok()) {
    out->responder_resources = static_cast<std::uint8_t>(std::min(inbound, 255u));
    out->initiator_depth = static_cast<std::uint8_t>(std::min(outbound, 255u));
  }
  const auto data = connector_.GetPrivateData();
  if (!data.ok() || data->empty()) return;
  const std::size_t size = std::min<std::size_t>(data->size(), 255);
  std::memcpy(out->private_data, data->data(), size);
  out->private_data_len = static_cast<std::uint8_t>(size);
}

void CmId::FillQpAttributes(std::uint32_t state, ib_uverbs_qp_attr* out) {
  std::memset(out, 0, sizeof *out);
  out->qp_state = state;
  out->port_num = out->ah_attr.port_num = 1;
  if (for_datagrams()) return FillDatagramAttributes(state, out);
  out->path_mtu = IBV_MTU_4096;
  out->dest_qp_num = kConnectedByCm | handle_;
  out->ah_attr.is_global = 1;
  std::memcpy(out->ah_attr.grh.dgid, GidOf(remote_).raw, sizeof out->ah_attr.grh.dgid);
  out->qp_access_flags =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  out->max_dest_rd_atomic = static_cast<std::uint8_t>(std::min(options_.limits.inbound, 255u));
  out->max_rd_atomic = static_cast<std::uint8_t>(std::min(options_.limits.outbound, 255u));
  out->timeout = ack_timeout_;
  out->retry_cnt = out->rnr_retry = 7;
  switch (state) {
    case IBV_QPS_INIT:
      out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
      break;
    case IBV_QPS_RTR:
      out->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
      break;
    default:
      out->qp_attr_mask = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
                          IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
  }
}

}  // namespace nd::verbs_lib
