// SPDX-License-Identifier: Apache-2.0
// IND2Provider: the adapters of the broker of this host. See ndspi_win.h for the contract.
#pragma once

#include "nd-provider/object_win.h"

namespace nd::spi {

class ProviderObject final : public Object<IND2Provider> {
 public:
  // DEVICE_NOT_READY: the broker is not running. These two also return other statuses of Adapter::Open.
  HRESULT STDMETHODCALLTYPE QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) override;
  HRESULT STDMETHODCALLTYPE ResolveAddress(const sockaddr* address, ULONG length,
                                           UINT64* adapter_id) override;
  // INVALID_PARAMETER: no adapter has this number.
  HRESULT STDMETHODCALLTYPE OpenAdapter(REFIID iid, UINT64 adapter_id, void** made) override;
};

}  // namespace nd::spi
