// SPDX-License-Identifier: Apache-2.0
// IND2CompletionQueue. See ndspi_win.h for the contract.
#pragma once

#include <memory>

#include "nd-provider/object_win.h"
#include "nd/queue_pair.h"

namespace nd::spi {

class CompletionQueueObject final : public OverlappedObject<IND2CompletionQueue> {
 public:
  CompletionQueueObject(std::shared_ptr<OverlappedRequests> requests, CompletionQueue queue);
  ~CompletionQueueObject() override;
  // Lets the library complete Notify requests; the status of the failure otherwise.
  Status Start();

  HRESULT STDMETHODCALLTYPE GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) override;
  HRESULT STDMETHODCALLTYPE Resize(ULONG depth) override;
  HRESULT STDMETHODCALLTYPE Notify(ULONG type, OVERLAPPED* overlapped) override;
  ULONG STDMETHODCALLTYPE GetResults(RequestResult* results, ULONG count) override;

  CompletionQueue queue;
};

}  // namespace nd::spi
