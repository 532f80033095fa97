// SPDX-License-Identifier: Apache-2.0
// The implementation of an open adapter, and the lifetime of objects behind public handles.
//
// Public handles have a count of their own. When the last handle of an object is destroyed, the object closes
// itself in the background; references of the library (pending completions, a disconnect in progress) keep
// its memory. When the last handle of all objects of an adapter is destroyed, the session ends.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "client-lib/src/fork_guard.h"
#include "client-lib/src/session.h"
#include "nd/adapter.h"
#include "provider/qp.h"

namespace nd {

// Lives while the application has a handle.
class SessionUse {
 public:
  explicit SessionUse(std::shared_ptr<client::Session> session) : session_(std::move(session)) {}
  ~SessionUse() { session_->CloseAll(); }

 private:
  std::shared_ptr<client::Session> session_;
};

struct Adapter::Impl : std::enable_shared_from_this<Impl> {
  std::shared_ptr<client::Session> session;
  std::shared_ptr<provider::Device> device;
  std::weak_ptr<SessionUse> use;
  std::atomic<bool> closed{false};
  std::mutex mutex;
  std::vector<std::weak_ptr<provider::MemoryRegion>> regions;

  // INVALID_HANDLE after Close() and in a forked child.
  Status Check() const;
  // Creates an object of this adapter at the broker; returns its handle and life.
  template <typename Op>
  Result<client::Reply> Create(Op op, client::Session::Life* life);
  void LastHandleGone() {}
};

namespace client {

// The pointer of a public handle to `object`; see above. Null when the session is already ending.
template <typename T>
std::shared_ptr<T> MakeHandle(std::shared_ptr<T> object, std::shared_ptr<SessionUse> use) {
  if (!use) return nullptr;
  T* raw = object.get();
  return std::shared_ptr<T>(raw,
                            [kept = std::move(object), held = std::move(use), mark = ForkMark()](T*) mutable {
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

// True for the status of Session::Submit and Perform when the broker is away.
inline bool IsUnreachable(const Status& status) {
  return status == StatusCode::kDeviceRemoved && status.detail() == Detail::kBrokerUnreachable;
}

// The buffer rules of behaviour b.5, shared by every getter.
// `text` starts at bytes; BUFFER_OVERFLOW or BUFFER_TOO_SMALL with the prefix copied.
Status CopyPrivateData(std::span<const std::byte> data, void* buffer, std::size_t* length, bool ndk);
// BUFFER_OVERFLOW or BUFFER_TOO_SMALL with nothing written.
Status CopyAddress(const Address& address, void* buffer, std::size_t* length, bool ndk);

}  // namespace client
}  // namespace nd
