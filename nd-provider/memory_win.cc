// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/memory_win.h"

#include "nd-provider/argument_rules.h"

namespace nd::spi {

HRESULT MemoryRegionObject::Register(const void* buffer, SIZE_T size, ULONG flags, OVERLAPPED* overlapped) {
  std::uint32_t access = 0;
  if (!SplitRegionFlags(flags, &access)) return Hr(StatusCode::kInvalidParameter3);
  if (overlapped == nullptr) return Hr(StatusCode::kInvalidParameter4);
  return Guarded([&] {
    std::lock_guard lock(mutex_);
    if (registered_) return Hr(StatusCode::kInvalidDeviceState);
    auto made = adapter_.Register(const_cast<void*>(buffer), size, access);
    if (!made.ok()) return Hr(made.status());
    const StatusCode told = requests().Succeed(overlapped);
    if (told != StatusCode::kPending) return Hr(told);
    region_ = std::move(made).value();
    registered_ = true;
    return Hr(told);
  });
}

HRESULT MemoryRegionObject::Deregister(OVERLAPPED* overlapped) {
  if (overlapped == nullptr) return Hr(StatusCode::kInvalidParameter1);
  return Guarded([&] {
    std::lock_guard lock(mutex_);
    if (Status status = region_.Deregister(); !status.ok()) return Hr(status);
    registered_ = false;
    return Hr(requests().Succeed(overlapped));
  });
}

UINT32 MemoryRegionObject::GetLocalToken() {
  std::lock_guard lock(mutex_);
  return region_.local_token();
}

UINT32 MemoryRegionObject::GetRemoteToken() {
  std::lock_guard lock(mutex_);
  return region_.remote_token();
}

MemoryRegion MemoryRegionObject::region() {
  std::lock_guard lock(mutex_);
  return region_;
}

}  // namespace nd::spi
