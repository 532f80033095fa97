// SPDX-License-Identifier: Apache-2.0
// Events are copied and acknowledged at once, because rdma_destroy_id waits until every event is
// acknowledged.
#include "provider/verbs/cm/wire_id.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/unique_fd.h"
#include "provider/verbs/device_limits.h"

namespace nd::provider::verbs {
namespace {

Result<rdma_event_channel*> MakeChannel() {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr) return OpenFailure("connection manager", errno);
  const int flags = ::fcntl(channel->fd, F_GETFL);
  if (flags < 0 || ::fcntl(channel->fd, F_SETFL, flags | O_NONBLOCK) < 0) {
    const int error = errno;
    rdma_destroy_event_channel(channel);
    return OpenFailure("connection manager", error);
  }
  return channel;
}

int SetShared(rdma_cm_id* id) {
  int on = 1;
  return rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on) == 0 ? 0 : errno;
}

}  // namespace

Result<std::shared_ptr<WireId>> WireId::Create() {
  auto channel = MakeChannel();
  if (!channel.ok()) return channel.status();
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(*channel, &id, nullptr, RDMA_PS_TCP) != 0) {
    const int error = errno;
    rdma_destroy_event_channel(*channel);
    return OpenFailure("connection manager", error);
  }
  return std::shared_ptr<WireId>(new WireId(*channel, id));
}

Result<std::shared_ptr<WireId>> WireId::Adopt(rdma_cm_id* id) {
  auto channel = MakeChannel();
  if (channel.ok() && rdma_migrate_id(id, *channel) != 0) {
    const int error = errno;
    rdma_destroy_event_channel(*channel);
    channel = OpenFailure("connection manager", error);
  }
  if (!channel.ok()) {
    rdma_reject(id, nullptr, 0);
    rdma_destroy_id(id);
    return channel.status();
  }
  return std::shared_ptr<WireId>(new WireId(*channel, id));
}

WireId::~WireId() {
  rdma_destroy_id(id_);
  rdma_destroy_event_channel(channel_);
}

int WireId::Bind(const Address& local, bool share) {
  if (share) {
    if (const int error = SetShared(id_); error != 0) return error;
  }
  sockaddr_storage storage{};
  if (local.ToSockaddr(&storage) == 0) return EAFNOSUPPORT;
  return rdma_bind_addr(id_, reinterpret_cast<sockaddr*>(&storage)) == 0 ? 0 : errno;
}

int WireId::ShareFromNowOn() {
  return SetShared(id_);
}

std::optional<CmEvent> WireId::NextEvent() {
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_, &event) != 0) return std::nullopt;
  CmEvent copy;
  copy.type = event->event;
  copy.status = event->status;
  copy.id = event->id;
  copy.responder_resources = event->param.conn.responder_resources;
  copy.initiator_depth = event->param.conn.initiator_depth;
  if (event->param.conn.private_data != nullptr && event->param.conn.private_data_len > 0) {
    const auto* data = static_cast<const std::uint8_t*>(event->param.conn.private_data);
    copy.private_data.assign(data, data + event->param.conn.private_data_len);
  }
  rdma_ack_cm_event(event);
  return copy;
}

void WireId::ReleaseDevice() {
  if (id_->verbs == nullptr) return;
  const UniqueFd nowhere(::open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nowhere) return;
  ::dup3(nowhere.get(), id_->verbs->cmd_fd, O_CLOEXEC);
  ::dup3(nowhere.get(), id_->verbs->async_fd, O_CLOEXEC);
}

bool WireId::iwarp() const {
  return id_->verbs != nullptr && IsIwarp(*id_->verbs);
}

}  // namespace nd::provider::verbs
