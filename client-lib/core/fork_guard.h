// SPDX-License-Identifier: Apache-2.0
// A session belongs to the process that opened it. In a child made by fork() calls on its handles fail, its
// objects are leaked instead of destroyed (their threads do not exist there, and gRPC must not be called),
// and its control sockets are closed at once, so that the broker notices the death of the parent.
#pragma once

#include <memory>
#include <utility>

#include "base/os/fork.h"

namespace nd::client {

using os::ForkMark;

// Called before the first use of something that does not work in a forked child. From now on children must
// exec before they use the library.
void UseUnforkable();
// True in a child that was forked after its parent's first UseUnforkable().
bool ForkedAfterUse();

// Leaks `object`. Takes no lock, which another thread of the parent may have held.
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
