// SPDX-License-Identifier: Apache-2.0
// A DLL of Network Direct that faults when it is asked for its addresses, for tests/windows/networkdirect.sh.
#include "nd-provider/ndspi_win.h"

namespace {

struct FaultingProvider final : nd::spi::IND2Provider {
  HRESULT STDMETHODCALLTYPE QueryInterface(REFIID, void** out) override {
    *out = this;
    return S_OK;
  }
  ULONG STDMETHODCALLTYPE AddRef() override { return 2; }
  ULONG STDMETHODCALLTYPE Release() override { return 1; }
  HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST*, ULONG*) override {
    ::RaiseException(EXCEPTION_ACCESS_VIOLATION, EXCEPTION_NONCONTINUABLE, 0, nullptr);
    return S_OK;
  }
  HRESULT STDMETHODCALLTYPE ResolveAddress(const sockaddr*, ULONG, UINT64*) override { return E_NOTIMPL; }
  HRESULT STDMETHODCALLTYPE OpenAdapter(REFIID, UINT64, void**) override { return E_NOTIMPL; }
};

FaultingProvider provider;

}  // namespace

extern "C" __declspec(dllexport) HRESULT STDMETHODCALLTYPE
    DllGetClassObject(REFCLSID, REFIID iid, void** out) {
  if (iid != nd::spi::kIid<nd::spi::IND2Provider>) return E_NOINTERFACE;
  return provider.QueryInterface(iid, out);
}
