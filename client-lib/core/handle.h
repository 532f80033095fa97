// SPDX-License-Identifier: Apache-2.0
// The core of the library, seen from a language binding.
//
// The core has one object for each object of an application: LocalAdapter, LocalConnector, LocalListener,
// LocalSharedEndpoint, LocalQueuePair, LocalCompletionQueue, LocalSharedReceiveQueue. Memory is the objects
// of the provider (provider/qp.h). A binding (client-lib/src for C++) hands out handles to them, converts
// arguments, and decides nothing.
//
// Handles. An AppHandle is a counted pointer with a count of its own. When the last handle of an object is
// released, the object closes itself in the background; references inside the library (pending operations, a
// disconnect in progress) keep its memory. When the last handle of all objects of an adapter is released, the
// session ends. A binding with opaque pointers keeps an AppHandle behind each of them.
//
// Validity. Calls through a handle are allowed until the object is closed, in the process that opened the
// adapter. A binding makes each call through Use(), which returns INVALID_HANDLE otherwise; Close alone goes
// through UseAny(), because closing answers for itself. Arguments that are objects are pointers borrowed from
// handles for the length of the call; null is an empty handle. The core checks them.
//
// Threads. Any thread may call any member. Callbacks run on the dispatcher of the session.
//
// Calls that may take long have a Caller (call_state.h): it blocks, or it is told later. Errors are values;
// the core throws nothing.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "client-lib/core/broker_session.h"
#include "client-lib/core/fork_guard.h"
#include "nd/status.h"

namespace nd::client {

template <typename T>
using AppHandle = std::shared_ptr<T>;

// Ends the session when the application has no handle of it any more.
class SessionUse {
 public:
  explicit SessionUse(std::shared_ptr<BrokerSession> session) : session_(std::move(session)) {}
  ~SessionUse() { session_->CloseAll(); }

 private:
  std::shared_ptr<BrokerSession> session_;
};

// Null when the session is already ending.
template <typename T>
AppHandle<T> MakeHandle(std::shared_ptr<T> object, std::shared_ptr<SessionUse> use) {
  if (!use) return nullptr;
  T* raw = object.get();
  return AppHandle<T>(raw, [kept = std::move(object), held = std::move(use), mark = ForkMark()](T*) mutable {
    if (mark.InChild()) {
      Leak(std::move(kept));
      Leak(std::move(held));
      return;
    }
    kept->LastHandleGone();
    kept.reset();
    held.reset();
  });
}

inline Status InvalidHandle(const char* what) {
  return {StatusCode::kInvalidHandle, std::string(what) + " is closed, empty, or of the parent process"};
}

// True when calls through a handle to `object` are allowed.
template <typename T>
bool Valid(const T* object) {
  return object != nullptr && object->usable();
}

// Calls `call` with the object of a valid handle.
template <typename T, typename Call>
auto Use(T* object, Call call) -> decltype(call(*object)) {
  if (!Valid(object)) return InvalidHandle(T::kWhat);
  return call(*object);
}

// As Use(), for a handle that is only not empty.
template <typename T, typename Call>
auto UseAny(T* object, Call call) -> decltype(call(*object)) {
  if (object == nullptr) return InvalidHandle(T::kWhat);
  return call(*object);
}

}  // namespace nd::client
