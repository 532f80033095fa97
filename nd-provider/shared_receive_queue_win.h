// SPDX-License-Identifier: Apache-2.0
// IND2SharedReceiveQueue. See ndspi_win.h for the contract.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

#include "nd-provider/object_win.h"
#include "nd/queue_pair.h"

namespace nd::spi {

class SharedReceiveQueueObject final : public OverlappedObject<IND2SharedReceiveQueue> {
 public:
  SharedReceiveQueueObject(std::shared_ptr<OverlappedRequests> requests, SharedReceiveQueue made,
                           ULONG notify_threshold)
      : OverlappedObject(std::move(requests)), queue(std::move(made)), threshold_(notify_threshold) {}
  ~SharedReceiveQueueObject() override;

  HRESULT STDMETHODCALLTYPE GetNotifyAffinity(USHORT* group, KAFFINITY* affinity) override;
  // 0 leaves a value as it is. A threshold applies to later Notify calls.
  HRESULT STDMETHODCALLTYPE Modify(ULONG depth, ULONG notify_threshold) override;
  // Completes when a receive was taken and fewer than the threshold are left. With a threshold of 0, never.
  HRESULT STDMETHODCALLTYPE Notify(OVERLAPPED* overlapped) override;
  HRESULT STDMETHODCALLTYPE Receive(void* request_context, const Sge* sges, ULONG count) override;

  SharedReceiveQueue queue;

 private:
  std::atomic<ULONG> threshold_;
};

}  // namespace nd::spi
