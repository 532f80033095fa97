// SPDX-License-Identifier: Apache-2.0
// IND2QueuePair. See ndspi_win.h for the contract.
#pragma once

#include <utility>

#include "nd-provider/completion_queue_win.h"
#include "nd-provider/object_win.h"
#include "nd-provider/shared_receive_queue_win.h"
#include "nd/queue_pair.h"

namespace nd::spi {

class QueuePairObject final : public Object<IND2QueuePair> {
 public:
  // Keeps its queues. `receive_queue` may be empty.
  QueuePairObject(QueuePair made, Ref<CompletionQueueObject> receive_cq,
                  Ref<CompletionQueueObject> initiator_cq, Ref<SharedReceiveQueueObject> receive_queue)
      : queue_pair(std::move(made)),
        receive_cq_(std::move(receive_cq)),
        initiator_cq_(std::move(initiator_cq)),
        receive_queue_(std::move(receive_queue)) {}
  // Ends a connection, and returns when the library does not use memory of its requests any more.
  ~QueuePairObject() override;

  HRESULT STDMETHODCALLTYPE Flush() override;
  HRESULT STDMETHODCALLTYPE Send(void* request_context, const Sge* sges, ULONG count, ULONG flags) override;
  HRESULT STDMETHODCALLTYPE Receive(void* request_context, const Sge* sges, ULONG count) override;
  HRESULT STDMETHODCALLTYPE Bind(void* request_context, IUnknown* region, IUnknown* window,
                                 const void* buffer, SIZE_T size, ULONG flags) override;
  HRESULT STDMETHODCALLTYPE Invalidate(void* request_context, IUnknown* window, ULONG flags) override;
  HRESULT STDMETHODCALLTYPE Read(void* request_context, const Sge* sges, ULONG count, UINT64 remote_address,
                                 UINT32 remote_token, ULONG flags) override;
  HRESULT STDMETHODCALLTYPE Write(void* request_context, const Sge* sges, ULONG count, UINT64 remote_address,
                                  UINT32 remote_token, ULONG flags) override;

  QueuePair queue_pair;

 private:
  const Ref<CompletionQueueObject> receive_cq_, initiator_cq_;
  const Ref<SharedReceiveQueueObject> receive_queue_;
};

}  // namespace nd::spi
