// SPDX-License-Identifier: Apache-2.0
// A provider whose queue pairs only record their calls. Any thread.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/os/wake_event.h"
#include "provider/qp.h"

namespace nd::client {

class FakeBuffer final : public provider::Buffer {
 public:
  explicit FakeBuffer(std::size_t size) : bytes_(size) {}
  std::byte* data() const override { return bytes_.data(); }
  std::size_t size() const override { return bytes_.size(); }

 private:
  mutable std::vector<std::byte> bytes_;
};

class FakeRegion final : public provider::MemoryRegion {
 public:
  std::uint32_t local_token() const override { return 7; }
  std::uint32_t remote_token() const override { return 8; }
  Status Deregister() override { return ++deregistered, Status(); }
  int deregistered = 0;
};

class FakeCompletionQueue final : public provider::CompletionQueue {
 public:
  std::size_t Poll(std::span<Completion>) override { return 0; }
  Status Notify(NotifyType) override { return {}; }
  int handle() const override { return event_.handle(); }
  bool ConsumeNotification() override { return true; }
  Status Wait(Time) override { return StatusCode::kIoTimeout; }
  Status Resize(std::uint32_t) override { return {}; }
  Status state() const override { return {}; }

 private:
  os::WakeEvent event_;
};

class FakeSharedReceiveQueue final : public provider::SharedReceiveQueue {
 public:
  Status Receive(void*, std::span<const Sge>) override { return {}; }
};

class FakeQueuePair : public provider::QueuePair {
 public:
  explicit FakeQueuePair(provider::QpOptions with) : options(std::move(with)) {}

  Status Attach(provider::HandOff hand_off) override {
    Log("attach");
    std::lock_guard lock(mutex_);
    record = hand_off.record;
    return attach_result;
  }
  Status Receive(void*, std::span<const Sge>) override { return {}; }
  Status Send(void*, std::span<const Sge>, std::uint32_t) override { return Log("send"), Status(); }
  Status SendAndInvalidate(void*, std::span<const Sge>, std::uint32_t, std::uint32_t) override { return {}; }
  Status Write(void*, std::span<const Sge>, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return {};
  }
  Status Read(void*, std::span<const Sge>, std::uint64_t, std::uint32_t, std::uint32_t) override {
    return {};
  }
  Status BindWindow(void*, provider::MemoryRegion&, provider::MemoryWindow&, void*, std::size_t,
                    std::uint32_t) override {
    return {};
  }
  Status Invalidate(void*, provider::MemoryWindow&, std::uint32_t) override { return {}; }
  Status Flush() override { return Log("flush"), Status(); }
  void Disconnect(Duration, std::function<void(Status)> done) override {
    Log("disconnect");
    if (!hold_disconnect) return done({});
    std::lock_guard lock(mutex_);
    held_.push_back(std::move(done));
  }
  void Drop() override { Log("drop"); }
  std::uint32_t device_number() const override { return number; }
  bool sees_goodbye() const override { return number == 0; }

  void Log(std::string what) {
    std::lock_guard lock(mutex_);
    log_.push_back(std::move(what));
  }
  std::vector<std::string> log() {
    std::lock_guard lock(mutex_);
    return log_;
  }

  // Lets the peers of all Disconnects so far answer.
  void FinishDisconnects() {
    std::vector<std::function<void(Status)>> held;
    {
      std::lock_guard lock(mutex_);
      held.swap(held_);
    }
    for (const auto& done : held) done({});
  }

  const provider::QpOptions options;
  std::atomic<bool> hold_disconnect{false};
  std::atomic<std::uint32_t> number{0};  // Not 0: the queue pair of a device.
  provider::HandOffRecord record;
  Status attach_result;

 private:
  std::mutex mutex_;
  std::vector<std::string> log_;
  std::vector<std::function<void(Status)>> held_;
};

class FakeDevice : public provider::Device {
 public:
  static AdapterInfo Info() {
    AdapterInfo info;
    info.name = "fake0";
    info.provider = "fake";
    info.max_registration_size = 1 << 20;
    info.max_initiator_sge = info.max_receive_sge = 8;
    info.max_inline_data_size = 128;
    info.max_receive_queue_depth = info.max_initiator_queue_depth = info.max_shared_receive_queue_depth = 64;
    info.max_completion_queue_depth = 256;
    return info;
  }

  Result<std::shared_ptr<provider::Buffer>> AllocateBuffer(std::size_t size) override {
    return std::shared_ptr<provider::Buffer>(std::make_shared<FakeBuffer>(size));
  }
  Result<std::shared_ptr<provider::MemoryRegion>> Register(void*, std::size_t, std::uint32_t) override {
    region = std::make_shared<FakeRegion>();
    return std::shared_ptr<provider::MemoryRegion>(region);
  }
  Result<std::shared_ptr<provider::MemoryWindow>> CreateWindow() override {
    return StatusCode::kNotSupported;
  }
  Result<std::shared_ptr<provider::CompletionQueue>> CreateCompletionQueue(std::uint32_t) override {
    return std::shared_ptr<provider::CompletionQueue>(std::make_shared<FakeCompletionQueue>());
  }
  Result<std::shared_ptr<provider::SharedReceiveQueue>> CreateSharedReceiveQueue(std::uint32_t,
                                                                                 std::uint32_t) override {
    return std::shared_ptr<provider::SharedReceiveQueue>(std::make_shared<FakeSharedReceiveQueue>());
  }
  Result<std::shared_ptr<provider::QueuePair>> CreateQueuePair(const provider::QpOptions& options) override {
    queue_pair = std::make_shared<FakeQueuePair>(options);
    return std::shared_ptr<provider::QueuePair>(queue_pair);
  }

  std::shared_ptr<FakeRegion> region;         // The newest.
  std::shared_ptr<FakeQueuePair> queue_pair;  // The newest.
};

}  // namespace nd::client
