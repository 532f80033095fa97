// SPDX-License-Identifier: Apache-2.0
// What every object of the provider has: counted references, the interfaces that it answers for, a place in
// the list of living objects, and a border that no exception crosses. Any thread.
//
// An object that a client passes as IUnknown is looked up in the list. So an object of another provider, of
// another kind or one that is gone is an error of the call, and its memory is not touched.
#pragma once

#include "nd-provider/ndspi_win.h"

#include <atomic>
#include <new>
#include <utility>

#include "nd-provider/overlapped_requests_win.h"
#include "nd/status.h"

namespace nd::spi {

constexpr HRESULT Hr(StatusCode code) {
  return static_cast<HRESULT>(code);
}
inline HRESULT Hr(const Status& status) {
  return Hr(status.code());
}

// The answer of `call`; NO_MEMORY when an allocation fails in it.
template <typename Call>
HRESULT Guarded(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Hr(StatusCode::kNoMemory);
  } catch (...) {  // The library throws nothing else; the C++ library may, as for a thread that cannot start.
    return Hr(StatusCode::kInsufficientResources);
  }
}

// The objects of this process. `kind`: the address of the number of its interface.
class LivingObjects {
 public:
  static void Add(IUnknown* object, const GUID* kind, std::atomic<ULONG>* references);
  static void Remove(IUnknown* object);
  // With one more reference. Null: there is no such object, or its last reference is gone.
  static IUnknown* Find(const IUnknown* object, const GUID* kind);
  static std::size_t Count();
};

// A counted reference to an object of this provider.
template <typename T>
class Ref {
 public:
  Ref() = default;
  // Takes over one reference.
  explicit Ref(T* object) : object_(object) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_ != nullptr) object_->Release();
  }
  T* operator->() const { return object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

template <typename T>
Ref<T> Find(const IUnknown* object) {
  return Ref<T>(static_cast<T*>(LivingObjects::Find(object, &kIid<typename T::Main>)));
}

// Made with one reference; see Give().
template <typename Interface>
class Object : public Interface {
 public:
  using Main = Interface;

  Object() { LivingObjects::Add(this, &kIid<Interface>, &references_); }
  virtual ~Object() { LivingObjects::Remove(this); }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;

  HRESULT STDMETHODCALLTYPE QueryInterface(REFIID iid, void** out) override {
    if (out == nullptr) return E_POINTER;
    *out = nullptr;
    if (iid != kIid<IUnknown> && iid != kIid<Interface> && !IsBase(iid)) return E_NOINTERFACE;
    AddRef();
    *out = static_cast<Interface*>(this);
    return S_OK;
  }
  ULONG STDMETHODCALLTYPE AddRef() override {
    return references_.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  ULONG STDMETHODCALLTYPE Release() override {
    const ULONG left = references_.fetch_sub(1, std::memory_order_acq_rel) - 1;
    if (left == 0) delete this;
    return left;
  }

 protected:
  // Another interface, which the main one begins with.
  virtual bool IsBase(REFIID /*iid*/) const { return false; }

 private:
  std::atomic<ULONG> references_{1};
};

// Makes an object and returns the interface that the client wants.
template <typename T, typename... Arguments>
HRESULT Give(REFIID iid, void** out, Arguments&&... arguments) {
  Ref<T> made(new T(std::forward<Arguments>(arguments)...));
  return made->QueryInterface(iid, out);
}

// An object with requests of the client.
template <typename Interface>
class OverlappedObject : public Object<Interface> {
 public:
  explicit OverlappedObject(std::shared_ptr<OverlappedRequests> requests) : requests_(std::move(requests)) {}

  HRESULT STDMETHODCALLTYPE CancelOverlappedRequests() override {
    return Guarded([&] {
      requests_->FinishAll(StatusCode::kCanceled);
      return Hr(StatusCode::kSuccess);
    });
  }
  HRESULT STDMETHODCALLTYPE GetOverlappedResult(OVERLAPPED* overlapped, BOOL wait) override {
    if (overlapped == nullptr) return Hr(StatusCode::kInvalidParameter1);
    return Guarded([&] { return Hr(OverlappedResult(overlapped, wait != FALSE)); });
  }

 protected:
  bool IsBase(REFIID iid) const override { return iid == kIid<IND2Overlapped>; }
  OverlappedRequests& requests() const { return *requests_; }
  const std::shared_ptr<OverlappedRequests>& shared_requests() const { return requests_; }

 private:
  const std::shared_ptr<OverlappedRequests> requests_;
};

}  // namespace nd::spi
