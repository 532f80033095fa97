// SPDX-License-Identifier: Apache-2.0
// The entry points of ndbrokernd.dll.
//
// The library has threads of the process, so the module stays loaded from its first provider object on.
// FreeLibrary, with or without outstanding requests, is harmless then; DllCanUnloadNow tells whether
// objects are left.
#include <winsock2.h>

#include <ws2spi.h>

#include <windows.h>

#include <olectl.h>

#include <atomic>
#include <string>
#include <vector>

#include "nd-provider/catalogue_win.h"
#include "nd-provider/provider_win.h"

namespace nd::spi {
namespace {

std::atomic<ULONG> locks{0};  // IClassFactory::LockServer.

HMODULE ThisModule(DWORD flags) {
  HMODULE module = nullptr;
  ::GetModuleHandleExW(GET_MODULE_HANDLE_EX_FLAG_FROM_ADDRESS | flags,
                       reinterpret_cast<const wchar_t*>(&locks), &module);
  return module;
}

HRESULT GiveProvider(REFIID iid, void** out) {
  return Guarded([&] {
    ThisModule(GET_MODULE_HANDLE_EX_FLAG_PIN);
    return Give<ProviderObject>(iid, out);
  });
}

class ClassFactory final : public Object<IClassFactory> {
 public:
  HRESULT STDMETHODCALLTYPE CreateInstance(IUnknown* outer, REFIID iid, void** out) override {
    if (out == nullptr) return E_POINTER;
    *out = nullptr;
    return outer != nullptr ? CLASS_E_NOAGGREGATION : GiveProvider(iid, out);
  }
  HRESULT STDMETHODCALLTYPE LockServer(BOOL lock) override {
    lock != FALSE ? ++locks : --locks;
    return S_OK;
  }
};

std::wstring OwnPath() {
  std::vector<wchar_t> path(32768);
  const DWORD length = ::GetModuleFileNameW(ThisModule(GET_MODULE_HANDLE_EX_FLAG_UNCHANGED_REFCOUNT),
                                            path.data(), static_cast<DWORD>(path.size()));
  return {path.data(), length};
}

HRESULT OfRegistration(const Status& status) {
  if (status.ok()) return S_OK;
  return status == StatusCode::kAccessDenied ? E_ACCESSDENIED : SELFREG_E_CLASS;
}

}  // namespace
}  // namespace nd::spi

using nd::spi::Guarded;

// Network Direct asks for IND2Provider at once; COM asks for a class factory.
extern "C" HRESULT STDMETHODCALLTYPE DllGetClassObject(REFCLSID class_id, REFIID iid, void** out) {
  if (out == nullptr) return E_POINTER;
  *out = nullptr;
  if (class_id != nd::spi::kProviderClass) return CLASS_E_CLASSNOTAVAILABLE;
  if (iid == nd::spi::kIid<nd::spi::IND2Provider>) return nd::spi::GiveProvider(iid, out);
  return Guarded([&] { return nd::spi::Give<nd::spi::ClassFactory>(iid, out); });
}

extern "C" HRESULT STDMETHODCALLTYPE DllCanUnloadNow() {
  return nd::spi::locks == 0 && nd::spi::LivingObjects::Count() == 0 ? S_OK : S_FALSE;
}

extern "C" HRESULT STDMETHODCALLTYPE DllRegisterServer() {
  return Guarded([] { return nd::spi::OfRegistration(nd::spi::InstallEntry(nd::spi::OwnPath())); });
}

extern "C" HRESULT STDMETHODCALLTYPE DllUnregisterServer() {
  return Guarded([] { return nd::spi::OfRegistration(nd::spi::RemoveEntry()); });
}

// Every DLL of the catalogue has this one. There are no sockets behind this provider.
extern "C" int WSPAPI WSPStartup(WORD /*version*/, LPWSPDATA /*data*/, LPWSAPROTOCOL_INFOW /*protocol*/,
                                 WSPUPCALLTABLE /*calls*/, LPWSPPROC_TABLE /*table*/) {
  return WSASYSNOTREADY;
}
