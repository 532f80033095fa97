// SPDX-License-Identifier: Apache-2.0
// IND2MemoryRegion and IND2MemoryWindow. See ndspi_win.h for the contract.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "nd-provider/object_win.h"
#include "nd/adapter.h"
#include "nd/memory.h"

namespace nd::spi {

class MemoryRegionObject final : public OverlappedObject<IND2MemoryRegion> {
 public:
  MemoryRegionObject(std::shared_ptr<OverlappedRequests> requests, Adapter adapter)
      : OverlappedObject(std::move(requests)), adapter_(std::move(adapter)) {}

  // INVALID_DEVICE_STATE: the object has a buffer already. INVALID_PARAMETER_3: a flag is unknown.
  HRESULT STDMETHODCALLTYPE Register(const void* buffer, SIZE_T size, ULONG flags,
                                     OVERLAPPED* overlapped) override;
  // INVALID_HANDLE: the object has no buffer.
  HRESULT STDMETHODCALLTYPE Deregister(OVERLAPPED* overlapped) override;
  UINT32 STDMETHODCALLTYPE GetLocalToken() override;
  UINT32 STDMETHODCALLTYPE GetRemoteToken() override;

  MemoryRegion region();

 private:
  Adapter adapter_;
  std::mutex mutex_;
  bool registered_ = false;
  MemoryRegion region_;
};

class MemoryWindowObject final : public Object<IND2MemoryWindow> {
 public:
  explicit MemoryWindowObject(MemoryWindow made) : window(std::move(made)) {}
  UINT32 STDMETHODCALLTYPE GetRemoteToken() override { return window.remote_token(); }

  MemoryWindow window;
};

}  // namespace nd::spi
