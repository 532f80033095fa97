// SPDX-License-Identifier: Apache-2.0
// A session belongs to the process that opened it. In a child made by fork() calls on its handles fail, its
// objects are leaked instead of destroyed (their threads do not exist there, and gRPC must not be called),
// and its control sockets are closed at once, so that the broker notices the death of the parent.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace nd::client {

// Changes in every forked child. Cheap enough for the data path.
extern std::atomic<std::uint32_t> fork_generation;

class ForkMark {
 public:
  ForkMark();
  // True in a child of the process that made the mark.
  bool InChild() const { return fork_generation.load(std::memory_order_relaxed) != generation_; }

 private:
  std::uint32_t generation_;
};

// Closes `fd` in every child of this process from now until Forget. Any thread.
void CloseInChild(int fd);
void ForgetInChild(int fd);

// Called before the first use of something that does not work in a forked child. From now on children must
// exec before they use the library.
void UseUnforkable();
// True in a child that was forked after its parent's first UseUnforkable().
bool ForkedAfterUse();

// Leaks `object`.
void Leak(std::shared_ptr<const void> object);

// A pointer whose last copy leaks the object when it goes away in a forked child.
template <typename T>
std::shared_ptr<T> LeakInChild(std::shared_ptr<T> object) {
  T* raw = object.get();
  return std::shared_ptr<T>(raw, [kept = std::move(object), mark = ForkMark()](T*) mutable {
    if (mark.InChild()) Leak(std::move(kept));
    kept.reset();  // Reset here, because a weak reference keeps this function and its captures alive.
  });
}

}  // namespace nd::client
