// SPDX-License-Identifier: Apache-2.0
// RDMA_PS_UDP. The active side asks for the UD queue pair behind an address and a port. The question is a
// connection of the broker that carries no data, and its private data have the answer; then the active side
// ends it. An identifier of InfiniBand asks by SIDR, whose statuses these are.
#include <rdma/ib_user_verbs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "verbs-lib/cm_id.h"
#include "verbs-lib/datagram_service.h"

namespace nd::verbs_lib {
namespace {

constexpr int kUnsupportedService = 1, kRejectedService = 2;

void Fill(std::span<const std::byte> data, rdma_ucm_ud_param* out) {
  const std::size_t size = std::min<std::size_t>(data.size(), 255);
  if (size != 0) std::memcpy(out->private_data, data.data(), size);
  out->private_data_len = static_cast<std::uint8_t>(size);
}

}  // namespace

bool CmId::TellOfDatagrams(CmEvent event, int status, const rdma_ucm_ud_param& parameters,
                           const std::shared_ptr<CmId>& request) {
  CmChannel::Event told = MakeEvent(event, status, request);
  told.response.param.ud = parameters;
  return Push(std::move(told));
}

std::optional<rdma_ucm_ud_param> CmId::Question() {
  const auto data = connector_.GetPrivateData();
  if (!data.ok() || !ParseDatagramService(*data)) return {};
  rdma_ucm_ud_param question{};
  Fill(std::span(*data).subspan(kDatagramServiceSize), &question);
  return question;
}

int CmId::Ask(const rdma_ucm_conn_param& parameters) {
  if (const Status status = MakeInnerPair(); !status.ok()) return ErrnoOf(status);
  const auto* data = reinterpret_cast<const std::byte*>(parameters.private_data);
  private_data_ = EncodeDatagramService({}, {data, parameters.private_data_len});
  options_.private_data = private_data_;
  StartConnect(1);
  return 0;
}

int CmId::Answer(std::uint64_t uid, const rdma_ucm_conn_param& parameters) {
  if (const Status status = MakeInnerPair(); !status.ok()) return ErrnoOf(status);
  const auto* data = reinterpret_cast<const std::byte*>(parameters.private_data);
  private_data_ = EncodeDatagramService(
      {parameters.qp_num, parameters.qkey != 0 ? parameters.qkey : kDatagramServiceQkey},
      {data, parameters.private_data_len});
  options_.private_data = private_data_;
  {
    std::lock_guard lock(mutex_);
    uid_ = uid;
  }
  // The program is not told how it ends.
  Begin([this](Request* request) { return connector_.Accept(used_, options_, request); },
        [self = shared_from_this()](const Status&) {});
  return 0;
}

void CmId::OnAnswered() {
  Connector connector;
  nd::QueuePair inner;
  {
    std::lock_guard lock(mutex_);
    if (dead_) return;
    connector = std::exchange(connector_, {});
    inner = std::exchange(used_, {});
  }
  const auto data = connector.GetPrivateData();
  const auto service = data.ok() ? ParseDatagramService(*data) : std::nullopt;
  rdma_ucm_ud_param answer{};
  if (service) {
    Fill(std::span(*data).subspan(kDatagramServiceSize), &answer);
    answer.qp_num = service->number;
    answer.qkey = service->qkey;
    answer.ah_attr.is_global = 1;
    answer.ah_attr.port_num = 1;
    answer.ah_attr.grh.hop_limit = 64;
    const auto& own = device_->info.addresses;
    const auto source = std::ranges::find_if(own, [this](const Address& one) { return one.same_ip(local_); });
    answer.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(source - own.begin());
    std::memcpy(answer.ah_attr.grh.dgid, GidOf(remote_).raw, sizeof answer.ah_attr.grh.dgid);
    TellOfDatagrams(CmEvent::kEstablished, 0, answer);
  } else {
    TellOfDatagrams(CmEvent::kUnreachable, kUnsupportedService, answer);
  }
  // The other side waits for the end of the establishment, and then for that of the connection.
  Begin([&](Request* request) { return connector.CompleteConnect(request); },
        [connector, inner](const Status&) mutable {
          CloseInBackground(std::move(connector));
          CloseInBackground(std::move(inner));
        });
}

void CmId::OnRefused(const Status& status, bool wants_listener) {
  rdma_ucm_ud_param parameters{};
  if (const auto data = connector_.GetPrivateData(); data.ok() && status.detail() == Detail::kPeerRejected) {
    Fill(*data, &parameters);
  }
  TellOfDatagrams(CmEvent::kUnreachable, wants_listener ? kUnsupportedService : kRejectedService, parameters);
}

void CmId::FillDatagramAttributes(std::uint32_t state, ib_uverbs_qp_attr* out) {
  out->qkey = kDatagramServiceQkey;
  switch (state) {
    case IBV_QPS_INIT:
      out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
      break;
    case IBV_QPS_RTR:
      out->qp_attr_mask = IBV_QP_STATE;
      break;
    default:
      out->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
  }
}

}  // namespace nd::verbs_lib
