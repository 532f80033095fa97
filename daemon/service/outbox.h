// SPDX-License-Identifier: Apache-2.0
// The sending half of a gRPC stream: a bounded queue, one write at a time, and an end that is always reached.
//
// Any thread. gRPC may run a reaction inside the call that starts an operation, and no operation may start
// after Finish(). So no call into gRPC is made under the lock, and a thread that is about to make one holds a
// pin, which delays Finish().
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

namespace nd::service {

template <typename Reactor, typename Message>
class Outbox : public Reactor {
 public:
  enum class Put { kQueued, kFull, kEnded };

  explicit Outbox(grpc::CallbackServerContext* context) : context_(context) {}

  // kFull: nothing was queued, because the reader is more than `bound` units behind.
  Put Enqueue(Message message, std::size_t units, std::size_t bound) {
    {
      std::lock_guard lock(mutex_);
      if (finish_) return Put::kEnded;
      if (units_ + units > bound) return Put::kFull;
      units_ += units;
      queue_.emplace_back(std::move(message), units);
    }
    Pump();
    return Put::kQueued;
  }
  // Ends the call after all queued messages are written. The first status counts.
  void FinishAfterQueue(grpc::Status status) {
    {
      std::lock_guard lock(mutex_);
      if (!finish_) finish_ = std::move(status);
    }
    Pump();
  }
  // Ends the call now; queued messages are lost.
  void FinishNow(grpc::Status status) {
    {
      std::lock_guard lock(mutex_);
      if (!finish_) finish_ = std::move(status);
      broken_ = true;
      queue_.clear();
      if (finished_) return;
      ++pins_;
    }
    context_->TryCancel();  // Fails a write that waits for the reader.
    Unpin();
  }
  // Returns the size of the queue, in the units of Enqueue().
  std::size_t waiting() const {
    std::lock_guard lock(mutex_);
    return units_;
  }
  bool ending() const {
    std::lock_guard lock(mutex_);
    return finish_.has_value();
  }

  void OnWriteDone(bool ok) override {
    {
      std::lock_guard lock(mutex_);
      writing_ = false;
      units_ -= current_units_;
      if (!ok) Break();
    }
    Pump();
  }
  void OnCancel() override {
    {
      std::lock_guard lock(mutex_);
      Break();
    }
    Pump();
  }

 protected:
  // Returns false when the call is ending. After true, call into gRPC and then Unpin().
  bool Pin() {
    std::lock_guard lock(mutex_);
    if (finish_) return false;
    ++pins_;
    return true;
  }
  void Unpin() {
    {
      std::lock_guard lock(mutex_);
      --pins_;
    }
    Pump();
  }

 private:
  void Break() {
    broken_ = true;
    queue_.clear();
    if (!finish_) finish_ = grpc::Status(grpc::StatusCode::CANCELLED, "the other side is gone");
  }
  void Pump() {
    std::unique_lock lock(mutex_);
    if (finished_ || writing_) return;
    if (!broken_ && !queue_.empty()) {
      current_ = std::move(queue_.front().first);
      current_units_ = queue_.front().second;
      queue_.pop_front();
      writing_ = true;  // Delays Finish() as a pin does.
      lock.unlock();
      this->StartWrite(&current_);
      return;
    }
    if (!finish_ || pins_ != 0) return;
    finished_ = true;
    const grpc::Status status = *finish_;
    lock.unlock();
    this->Finish(status);
  }

  grpc::CallbackServerContext* const context_;
  mutable std::mutex mutex_;
  std::deque<std::pair<Message, std::size_t>> queue_;
  Message current_;
  std::size_t current_units_ = 0, units_ = 0;
  std::optional<grpc::Status> finish_;
  int pins_ = 0;
  bool writing_ = false, broken_ = false, finished_ = false;
};

}  // namespace nd::service
