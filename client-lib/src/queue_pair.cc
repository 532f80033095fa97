// SPDX-License-Identifier: Apache-2.0
// The public class of queue pairs. Posts go to the provider directly.
#include "nd/queue_pair.h"

#include <utility>

#include "client-lib/src/face.h"

namespace nd {

using client::CallerOf;
using client::Core;
using client::LocalQueuePair;

namespace {

template <typename Function>
Status Post(const std::shared_ptr<QueuePair::Impl>& impl, Function function) {
  return client::Use(Core(impl), [&](LocalQueuePair& queue_pair) { return function(*queue_pair.real); });
}

Status CloseAs(const std::shared_ptr<QueuePair::Impl>& impl, Request* request, bool ndk) {
  return client::UseAny(Core(impl),
                        [&](LocalQueuePair& queue_pair) { return queue_pair.Close(CallerOf(request), ndk); });
}

}  // namespace

QueuePair::QueuePair(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}

Status QueuePair::AllowEarlyRequests() {
  return Post(impl_, [](provider::QueuePair& real) { return real.AllowEarlyRequests(); });
}

Status QueuePair::SetReceivePatience(std::chrono::nanoseconds patience) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.SetReceivePatience(patience); });
}

Status QueuePair::SetProtection(const Protection& protection) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.SetProtection(protection); });
}

Status QueuePair::Receive(void* request_context, std::span<const Sge> sges) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.Receive(request_context, sges); });
}

Status QueuePair::Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) { return real.Send(request_context, sges, flags); });
}

Status QueuePair::SendAndInvalidate(void* request_context, std::span<const Sge> sges,
                                    std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.SendAndInvalidate(request_context, sges, flags, remote_token);
  });
}

Status QueuePair::Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                        std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Write(request_context, sges, remote_address, remote_token, flags);
  });
}

Status QueuePair::Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                       std::uint32_t remote_token, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Read(request_context, sges, remote_address, remote_token, flags);
  });
}

Status QueuePair::SendWithImmediate(void* request_context, std::span<const Sge> sges, std::uint32_t immediate,
                                    std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.SendWithImmediate(request_context, sges, immediate, flags);
  });
}

Status QueuePair::WriteWithImmediate(void* request_context, std::span<const Sge> sges,
                                     std::uint64_t remote_address, std::uint32_t remote_token,
                                     std::uint32_t immediate, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.WriteWithImmediate(request_context, sges, remote_address, remote_token, immediate, flags);
  });
}

Status QueuePair::FetchAdd(void* request_context, const Sge& result, std::uint64_t remote_address,
                           std::uint32_t remote_token, std::uint64_t add, std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.FetchAdd(request_context, result, remote_address, remote_token, add, flags);
  });
}

Status QueuePair::CompareSwap(void* request_context, const Sge& result, std::uint64_t remote_address,
                              std::uint32_t remote_token, std::uint64_t compare, std::uint64_t swap,
                              std::uint32_t flags) {
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.CompareSwap(request_context, result, remote_address, remote_token, compare, swap, flags);
  });
}

Status QueuePair::BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window, void* address,
                             std::size_t length, std::uint32_t flags) {
  if (!region.impl_) return client::InvalidHandle("the memory region");
  if (!window.impl_) return client::InvalidHandle("the memory window");
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.BindWindow(request_context, *region.impl_, *window.impl_, address, length, flags);
  });
}

Status QueuePair::Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) {
  if (!window.impl_) return client::InvalidHandle("the memory window");
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.Invalidate(request_context, *window.impl_, flags);
  });
}

Status QueuePair::BindVerbsWindow(void* request_context, MemoryRegion* region, MemoryWindow& window,
                                  const WindowBinding& binding, std::uint32_t flags) {
  if (!window.impl_) return client::InvalidHandle("the memory window");
  return Post(impl_, [&](provider::QueuePair& real) {
    return real.BindVerbsWindow(request_context, region == nullptr ? nullptr : region->impl_.get(),
                                *window.impl_, binding, flags);
  });
}

Status QueuePair::InvalidateToken(void* request_context, std::uint32_t token, std::uint32_t flags) {
  return Post(impl_,
              [&](provider::QueuePair& real) { return real.InvalidateToken(request_context, token, flags); });
}

Status QueuePair::Flush() {
  return Post(impl_, [](provider::QueuePair& real) { return real.Flush(); });
}

Status QueuePair::Close(Request* request) {
  return CloseAs(impl_, request, false);
}

Status QueuePair::NdkClose(Request* request) {
  return CloseAs(impl_, request, true);
}

}  // namespace nd
