// SPDX-License-Identifier: Apache-2.0
// Handles of the memory objects of a provider.
#include "nd/memory.h"

#include <utility>

#include "client-lib/core/listed_regions.h"
#include "provider/qp.h"

namespace nd {

Buffer::Buffer(std::shared_ptr<provider::Buffer> impl) : impl_(std::move(impl)) {}
std::byte* Buffer::data() const {
  return impl_ ? impl_->data() : nullptr;
}
std::size_t Buffer::size() const {
  return impl_ ? impl_->size() : 0;
}

MemoryRegion::MemoryRegion(std::shared_ptr<provider::MemoryRegion> impl) : impl_(std::move(impl)) {}
std::uint32_t MemoryRegion::local_token() const {
  return impl_ ? impl_->local_token() : 0;
}
std::uint32_t MemoryRegion::remote_token() const {
  return impl_ ? impl_->remote_token() : 0;
}

Sge MemoryRegion::Slice(void* address, std::size_t length) const {
  return {address, static_cast<std::uint32_t>(length), local_token()};
}

Status MemoryRegion::Deregister() {
  if (!impl_) return {StatusCode::kInvalidHandle, "the memory region is empty or deregistered"};
  Status status = client::Deregister(impl_);
  if (status.ok()) impl_.reset();
  return status;
}

Status MemoryRegion::Change(void* address, std::size_t length, std::uint32_t access,
                            const RegionOptions& options) {
  if (!impl_) return {StatusCode::kInvalidHandle, "the memory region is empty or deregistered"};
  return client::Change(impl_, address, length, access, options);
}

MemoryWindow::MemoryWindow(std::shared_ptr<provider::MemoryWindow> impl) : impl_(std::move(impl)) {}
std::uint32_t MemoryWindow::remote_token() const {
  return impl_ ? impl_->remote_token() : 0;
}

}  // namespace nd
