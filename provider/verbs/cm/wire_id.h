// SPDX-License-Identifier: Apache-2.0
// One rdma_cm_id with an event channel of its own. The descriptor of the channel can also be given to the
// client.
#pragma once

#include <rdma/rdma_cma.h>

#include <memory>
#include <optional>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/verbs/cm/private_data.h"

namespace nd::provider::verbs {

// A copy of an event. The event itself is acknowledged before the copy is acted on.
struct CmEvent {
  rdma_cm_event_type type{};
  int status = 0;
  rdma_cm_id* id = nullptr;
  Data private_data;
  std::uint8_t responder_resources = 0, initiator_depth = 0;
};

// Thread rule: one thread at a time, except that Connect() may run while the loop reads events.
class WireId {
 public:
  // INSUFFICIENT_RESOURCES, DEVICE_NOT_READY, ACCESS_DENIED with the cause.
  static Result<std::shared_ptr<WireId>> Create();
  // Takes over the id of a CONNECT_REQUEST. On failure the request is refused and the id is destroyed.
  static Result<std::shared_ptr<WireId>> Adopt(rdma_cm_id* id);
  ~WireId();  // May block; only on the blocking pool.
  WireId(const WireId&) = delete;
  WireId& operator=(const WireId&) = delete;

  rdma_cm_id* id() const { return id_; }
  int fd() const { return channel_->fd; }

  // Returns 0 or an errno. `share`: ids that share may hold the same port together.
  int Bind(const Address& local, bool share);
  int ShareFromNowOn();

  // Takes and acknowledges the next event; returns no value when there is none.
  std::optional<CmEvent> NextEvent();

  bool iwarp() const;

  // librdmacm keeps a device open until the process ends, which keeps some drivers from removing it. This
  // call makes the descriptors of the device useless. Call it only when the device is being removed.
  void ReleaseDevice();

 private:
  WireId(rdma_event_channel* channel, rdma_cm_id* id) : channel_(channel), id_(id) {}
  rdma_event_channel* channel_;
  rdma_cm_id* id_;
};

}  // namespace nd::provider::verbs
