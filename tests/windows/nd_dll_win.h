// SPDX-License-Identifier: Apache-2.0
// ndbrokernd.dll as a program loads it, and what a program of Network Direct needs around it. For tests.
#pragma once

#include <winsock2.h>

#include <ws2spi.h>
#include <ws2tcpip.h>

#include <windows.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/os/winsock_catalogue_win.h"
#include "nd-provider/ndspi_win.h"

namespace nd::spi {

// A counted pointer that a program holds.
template <typename T>
class Held {
 public:
  Held() = default;
  ~Held() { reset(); }
  Held(Held&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Held& operator=(Held&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  T* operator->() const { return object_; }
  T* get() const { return object_; }
  // For functions that return an object.
  void** out() {
    reset();
    return reinterpret_cast<void**>(&object_);
  }
  // The references that are left; 0 also when there was none.
  ULONG reset() {
    T* const object = std::exchange(object_, nullptr);
    return object != nullptr ? object->Release() : 0;
  }

 private:
  T* object_ = nullptr;
};

inline sockaddr_in SocketAddress(const char* ip, std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = ::htons(port);
  ::inet_pton(AF_INET, ip, &address.sin_addr);
  return address;
}
inline const sockaddr* Generic(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}

// The path of the first provider of Network Direct in the Winsock catalogue; empty: there is none.
inline std::wstring PathInCatalogue() {
  for (WSAPROTOCOL_INFOW& entry : os::ReadWinsockCatalogue()) {
    if ((entry.dwProviderFlags & os::kNetworkDirectEntry) == 0) continue;
    wchar_t path[MAX_PATH], expanded[MAX_PATH];
    INT length = MAX_PATH, error = 0;
    if (::WSCGetProviderPath(&entry.ProviderId, path, &length, &error) != 0) continue;
    ::ExpandEnvironmentStringsW(path, expanded, MAX_PATH);
    return expanded;
  }
  return {};
}

struct Dll {
  using GetClassObject = HRESULT(STDMETHODCALLTYPE*)(REFCLSID, REFIID, void**);
  using CanUnloadNow = HRESULT(STDMETHODCALLTYPE*)();

  explicit Dll(const wchar_t* path) : module(::LoadLibraryW(path)) {
    if (module == nullptr) return;
    get_class_object = Entry<GetClassObject>("DllGetClassObject");
    can_unload_now = Entry<CanUnloadNow>("DllCanUnloadNow");
  }
  explicit operator bool() const { return get_class_object != nullptr && can_unload_now != nullptr; }
  template <typename Function>
  Function Entry(const char* name) const {
    return reinterpret_cast<Function>(reinterpret_cast<void*>(::GetProcAddress(module, name)));
  }
  HRESULT Provider(Held<IND2Provider>* provider) const {
    return get_class_object(kProviderClass, kIid<IND2Provider>, provider->out());
  }

  HMODULE module;
  GetClassObject get_class_object = nullptr;
  CanUnloadNow can_unload_now = nullptr;
};

// The adapter that has the address.
inline HRESULT OpenAdapter(const Dll& dll, const sockaddr_in& own, Held<IND2Adapter>* adapter) {
  Held<IND2Provider> provider;
  UINT64 id = 0;
  HRESULT hr = dll.Provider(&provider);
  if (SUCCEEDED(hr)) hr = provider->ResolveAddress(Generic(own), sizeof own, &id);
  if (SUCCEEDED(hr)) hr = provider->OpenAdapter(kIid<IND2Adapter>, id, adapter->out());
  return hr;
}

// The result of a call that may be pending.
inline HRESULT Await(IND2Overlapped* object, HRESULT hr, OVERLAPPED* overlapped) {
  return hr == static_cast<HRESULT>(StatusCode::kPending) ? object->GetOverlappedResult(overlapped, TRUE)
                                                          : hr;
}

}  // namespace nd::spi
