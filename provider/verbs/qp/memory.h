// SPDX-License-Identifier: Apache-2.0
// Buffers, regions and windows of one device context.
#pragma once

#include <infiniband/verbs.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "provider/qp.h"
#include "provider/verbs/qp/context.h"

namespace nd::provider::verbs {

class VerbsBuffer final : public Buffer {
 public:
  static Result<std::shared_ptr<Buffer>> Create(std::size_t size);
  ~VerbsBuffer() override;
  std::byte* data() const override { return data_; }
  std::size_t size() const override { return size_; }

 private:
  VerbsBuffer(std::byte* data, std::size_t size) : data_(data), size_(size) {}
  std::byte* const data_;
  const std::size_t size_;
};

class VerbsRegion final : public MemoryRegion, public std::enable_shared_from_this<VerbsRegion> {
 public:
  static Result<std::shared_ptr<MemoryRegion>> Create(std::shared_ptr<Context> context, void* address,
                                                      std::size_t length, std::uint32_t access);
  ~VerbsRegion() override;
  std::uint32_t local_token() const override;
  std::uint32_t remote_token() const override;
  Status Deregister() override;

  const std::shared_ptr<Context>& context() const { return context_; }
  ibv_mr* mr() const { return mr_; }
  bool Covers(const void* address, std::size_t length) const;
  void AddWindow() { windows_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveWindow() { windows_.fetch_sub(1, std::memory_order_relaxed); }

 private:
  VerbsRegion(std::shared_ptr<Context> context, ibv_mr* mr) : context_(std::move(context)), mr_(mr) {}
  const std::shared_ptr<Context> context_;
  mutable std::mutex mutex_;
  ibv_mr* mr_;
  std::atomic<std::uint32_t> windows_{0};
};

// Type 2: bound by a request of a queue pair, with a token that changes at each bind.
class VerbsWindow final : public MemoryWindow, public std::enable_shared_from_this<VerbsWindow> {
 public:
  static Result<std::shared_ptr<MemoryWindow>> Create(std::shared_ptr<Context> context);
  ~VerbsWindow() override;
  std::uint32_t remote_token() const override { return token_.load(std::memory_order_relaxed); }

  const std::shared_ptr<Context>& context() const { return context_; }
  ibv_mw* mw() const { return mw_; }
  std::uint32_t NextToken() const;
  // The bind with `token` was posted.
  void Bound(std::shared_ptr<VerbsRegion> region, std::uint32_t token);
  // The window was invalidated, by this side or by the peer.
  void Unbound();

 private:
  VerbsWindow(std::shared_ptr<Context> context, ibv_mw* mw) : context_(std::move(context)), mw_(mw) {}
  const std::shared_ptr<Context> context_;
  ibv_mw* const mw_;
  std::atomic<std::uint32_t> token_{0};
  std::mutex mutex_;
  std::shared_ptr<VerbsRegion> region_;
};

}  // namespace nd::provider::verbs
