// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/shared_receive_queue_win.h"

#include <span>

namespace nd::spi {

SharedReceiveQueueObject::~SharedReceiveQueueObject() {
  requests().Close();  // The library may hold the requests a moment longer.
}

HRESULT SharedReceiveQueueObject::GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) {
  const bool valid = group != nullptr && affinity != nullptr;
  return Hr(valid ? StatusCode::kNotSupported : StatusCode::kInvalidParameter);
}

HRESULT SharedReceiveQueueObject::Modify(ULONG depth, ULONG notify_threshold) {
  return Guarded([&] {
    if (depth != 0) {
      const Status status = queue.Resize(depth);
      if (status == StatusCode::kInvalidParameter1) return Hr(StatusCode::kInvalidParameter);
      if (!status.ok()) return Hr(status);
    }
    if (notify_threshold != 0) threshold_ = notify_threshold;
    return Hr(StatusCode::kSuccess);
  });
}

HRESULT SharedReceiveQueueObject::Notify(OVERLAPPED* overlapped) {
  if (overlapped == nullptr) return Hr(StatusCode::kInvalidParameter1);
  return Guarded([&] {
    OverlappedRequests::Id id = 0;
    const StatusCode begun = requests().Begin(overlapped, &id);
    if (begun != StatusCode::kPending) return Hr(begun);
    const Status armed =
        queue.SetLimit(threshold_, [held = shared_requests()] { held->FinishAll(StatusCode::kSuccess); });
    if (!armed.ok()) requests().Finish(id, armed.code());
    return Hr(StatusCode::kPending);
  });
}

HRESULT SharedReceiveQueueObject::Receive(void* request_context, const Sge* sges, ULONG count) {
  if (sges == nullptr && count != 0) return Hr(StatusCode::kInvalidParameter2);
  return Guarded([&] { return Hr(queue.Receive(request_context, std::span(sges, count))); });
}

}  // namespace nd::spi
