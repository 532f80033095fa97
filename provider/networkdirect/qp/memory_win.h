// SPDX-License-Identifier: Apache-2.0
// Memory of an adapter of Network Direct. Any thread.
#pragma once

#include <memory>
#include <mutex>

#include "provider/networkdirect/qp/context_win.h"
#include "provider/qp.h"

namespace nd::provider::networkdirect {

// Plain memory of this process. A peer reaches it through the adapter, as any other.
class NdBuffer final : public Buffer {
 public:
  static Result<std::shared_ptr<Buffer>> Make(std::size_t size);
  NdBuffer(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  ~NdBuffer() override;
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  std::byte* const data_;
  const std::size_t size_;
};

class NdRegion final : public MemoryRegion {
 public:
  static Result<std::shared_ptr<MemoryRegion>> Make(const std::shared_ptr<Context>& context, void* address,
                                                    std::size_t length, std::uint32_t access);
  NdRegion(std::shared_ptr<Context> context, Com<spi::IND2MemoryRegion> region);
  ~NdRegion() override;
  std::uint32_t local_token() const override { return local_token_; }
  std::uint32_t remote_token() const override { return remote_token_; }
  Status Deregister() override;

  const std::shared_ptr<Context>& context() const { return context_; }
  spi::IND2MemoryRegion* region() const { return region_.get(); }

 private:
  const std::shared_ptr<Context> context_;
  const Com<spi::IND2MemoryRegion> region_;
  const std::uint32_t local_token_, remote_token_;
  std::mutex mutex_;
  bool registered_ = true;
};

class NdWindow final : public MemoryWindow {
 public:
  static Result<std::shared_ptr<MemoryWindow>> Make(const std::shared_ptr<Context>& context);
  NdWindow(std::shared_ptr<Context> context, Com<spi::IND2MemoryWindow> window)
      : context_(std::move(context)), window_(std::move(window)) {}
  std::uint32_t remote_token() const override { return window_->GetRemoteToken(); }

  const std::shared_ptr<Context>& context() const { return context_; }
  spi::IND2MemoryWindow* window() const { return window_.get(); }

 private:
  const std::shared_ptr<Context> context_;
  const Com<spi::IND2MemoryWindow> window_;
};

class NdSharedReceiveQueue final : public SharedReceiveQueue {
 public:
  static Result<std::shared_ptr<SharedReceiveQueue>> Make(const std::shared_ptr<Context>& context,
                                                          std::uint32_t depth, std::uint32_t max_sge);
  NdSharedReceiveQueue(std::shared_ptr<Context> context, Com<spi::IND2SharedReceiveQueue> queue,
                       std::uint32_t max_sge)
      : context_(std::move(context)), queue_(std::move(queue)), max_sge_(max_sge) {}
  Status Receive(void* request_context, std::span<const Sge> sges) override;
  Status Resize(std::uint32_t depth) override;

  const std::shared_ptr<Context>& context() const { return context_; }
  spi::IND2SharedReceiveQueue* queue() const { return queue_.get(); }

 private:
  const std::shared_ptr<Context> context_;
  const Com<spi::IND2SharedReceiveQueue> queue_;
  const std::uint32_t max_sge_;
};

}  // namespace nd::provider::networkdirect
