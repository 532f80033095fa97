// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/queue_pair_win.h"

#include <span>

#include "nd-provider/memory_win.h"

namespace nd::spi {
namespace {

// Posts the elements with `post`, or says which parameter is wrong.
template <typename Post>
HRESULT WithSges(const Sge* sges, ULONG count, Post post) {
  if (sges == nullptr && count != 0) return Hr(StatusCode::kInvalidParameter2);
  return Guarded([&] { return Hr(post(std::span(sges, count))); });
}

}  // namespace

QueuePairObject::~QueuePairObject() {
  static_cast<void>(Guarded([&] { return Hr(queue_pair.Close()); }));
}

HRESULT QueuePairObject::Flush() {
  return Guarded([&] { return Hr(queue_pair.Flush()); });
}

HRESULT QueuePairObject::Send(void* request_context, const Sge* sges, ULONG count, ULONG flags) {
  return WithSges(sges, count, [&](auto all) { return queue_pair.Send(request_context, all, flags); });
}

HRESULT QueuePairObject::Receive(void* request_context, const Sge* sges, ULONG count) {
  return WithSges(sges, count, [&](auto all) { return queue_pair.Receive(request_context, all); });
}

HRESULT QueuePairObject::Bind(void* request_context, IUnknown* region, IUnknown* window, const void* buffer,
                              SIZE_T size, ULONG flags) {
  return Guarded([&] {
    const auto of_region = Find<MemoryRegionObject>(region);
    if (!of_region) return Hr(StatusCode::kInvalidParameter2);
    const auto of_window = Find<MemoryWindowObject>(window);
    if (!of_window) return Hr(StatusCode::kInvalidParameter3);
    MemoryRegion bound = of_region->region();
    return Hr(queue_pair.BindWindow(request_context, bound, of_window->window, const_cast<void*>(buffer),
                                    size, flags));
  });
}

HRESULT QueuePairObject::Invalidate(void* request_context, IUnknown* window, ULONG flags) {
  return Guarded([&] {
    const auto of_window = Find<MemoryWindowObject>(window);
    if (!of_window) return Hr(StatusCode::kInvalidParameter2);
    return Hr(queue_pair.Invalidate(request_context, of_window->window, flags));
  });
}

HRESULT QueuePairObject::Read(void* request_context, const Sge* sges, ULONG count, UINT64 remote_address,
                              UINT32 remote_token, ULONG flags) {
  return WithSges(sges, count, [&](auto all) {
    return queue_pair.Read(request_context, all, remote_address, remote_token, flags);
  });
}

HRESULT QueuePairObject::Write(void* request_context, const Sge* sges, ULONG count, UINT64 remote_address,
                               UINT32 remote_token, ULONG flags) {
  return WithSges(sges, count, [&](auto all) {
    return queue_pair.Write(request_context, all, remote_address, remote_token, flags);
  });
}

}  // namespace nd::spi
