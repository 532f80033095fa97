// SPDX-License-Identifier: Apache-2.0
// Counted pointers to objects of a DLL of Network Direct, and its statuses. Any thread.
#pragma once

#include "nd-provider/ndspi_win.h"

#include <string>
#include <utility>

#include "nd/status.h"

// The system's headers replace this word, which is a function of provider/qp.h.
#undef CreateWindow

namespace nd::provider::networkdirect {

template <typename T>
class Com {
 public:
  Com() = default;
  // Takes over one reference.
  explicit Com(T* object) : object_(object) {}
  Com(const Com& other) : object_(other.object_) {
    if (object_ != nullptr) object_->AddRef();
  }
  Com(Com&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Com& operator=(Com other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Com() { reset(); }

  // Another pointer to an object that the caller holds.
  static Com To(T* object) {
    object->AddRef();
    return Com(object);
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }
  void reset() {
    if (T* const object = std::exchange(object_, nullptr); object != nullptr) object->Release();
  }
  // For functions that return an object.
  void** out() {
    reset();
    return reinterpret_cast<void**>(&object_);
  }

 private:
  T* object_ = nullptr;
};

inline bool IsPending(HRESULT hr) {
  return static_cast<std::uint32_t>(hr) == static_cast<std::uint32_t>(StatusCode::kPending);
}

// An answer of the DLL. A number that is no status of Network Direct becomes UNSUCCESSFUL, with the number as
// the native code.
inline StatusCode CodeOf(HRESULT hr) {
  const StatusCode code{static_cast<std::uint32_t>(hr)};
  if (IsKnown(code)) return code;
  if (hr == E_NOTIMPL) return StatusCode::kNotSupported;
  if (hr == E_OUTOFMEMORY) return StatusCode::kNoMemory;
  return hr >= 0 ? StatusCode::kSuccess : StatusCode::kUnsuccessful;
}
inline Status StatusOf(HRESULT hr, const char* call) {
  const StatusCode code = CodeOf(hr);
  if (code == StatusCode::kSuccess) return {};
  return {code, std::string("the adapter's answer to ") + call, Detail::kNone, static_cast<std::int32_t>(hr)};
}

}  // namespace nd::provider::networkdirect
