// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/completion_queue_win.h"

#include <algorithm>
#include <utility>

namespace nd::spi {
namespace {

constexpr std::size_t kBatch = 32;

RequestResult ResultOf(const Completion& completion) {
  return {Hr(completion.status), completion.bytes_transferred, completion.queue_pair_context,
          completion.request_context, static_cast<INT32>(completion.type)};
}

}  // namespace

CompletionQueueObject::CompletionQueueObject(std::shared_ptr<OverlappedRequests> requests,
                                             CompletionQueue made)
    : OverlappedObject(std::move(requests)), queue(std::move(made)) {}

CompletionQueueObject::~CompletionQueueObject() {
  requests().Close();  // The library may hold the requests a moment longer.
}

Status CompletionQueueObject::Start() {
  return queue.SetNotification([held = shared_requests()] { held->FinishAll(StatusCode::kSuccess); });
}

HRESULT CompletionQueueObject::GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) {
  // Whichever thread of the process moves data notifies.
  const bool valid = group != nullptr && affinity != nullptr;
  return Hr(valid ? StatusCode::kNotSupported : StatusCode::kInvalidParameter);
}

HRESULT CompletionQueueObject::Resize(ULONG depth) {
  return Guarded([&] {
    const Status status = queue.Resize(depth);
    const bool range = status == StatusCode::kInvalidParameter1;
    return Hr(range ? StatusCode::kInvalidParameter : status.code());
  });
}

HRESULT CompletionQueueObject::Notify(ULONG type, OVERLAPPED* overlapped) {
  if (type > static_cast<ULONG>(NotifyType::kSolicited)) return Hr(StatusCode::kInvalidParameter1);
  if (overlapped == nullptr) return Hr(StatusCode::kInvalidParameter2);
  return Guarded([&] {
    if (Status lost = queue.state(); !lost.ok()) return Hr(lost);
    OverlappedRequests::Id id = 0;
    const StatusCode begun = requests().Begin(overlapped, &id);
    if (begun != StatusCode::kPending) return Hr(begun);
    const Status armed = queue.Notify(static_cast<NotifyType>(type));
    if (!armed.ok()) requests().Finish(id, armed.code());
    return Hr(StatusCode::kPending);
  });
}

ULONG CompletionQueueObject::GetResults(RequestResult* results, ULONG count) {
  if (results == nullptr) return 0;
  Completion batch[kBatch];
  ULONG done = 0;
  while (done < count) {
    const std::size_t room = std::min<std::size_t>(count - done, kBatch);
    const std::size_t got = queue.Poll(std::span(batch, room));
    std::transform(batch, batch + got, results + done, ResultOf);
    done += static_cast<ULONG>(got);
    if (got < room) break;
  }
  return done;
}

}  // namespace nd::spi
