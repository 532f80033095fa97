// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/provider_win.h"

#include <algorithm>

#include "nd-provider/adapter_win.h"
#include "nd-provider/address_list_win.h"
#include "nd/adapter.h"

namespace nd::spi {

HRESULT ProviderObject::QueryAddressList(SOCKET_ADDRESS_LIST* list, ULONG* size) {
  return Guarded([&] {
    auto addresses = Adapter::QueryAddressList();
    return Hr(addresses.ok() ? WriteAddressList(*addresses, list, size) : addresses.code());
  });
}

HRESULT ProviderObject::ResolveAddress(const sockaddr* address, ULONG length, UINT64* adapter_id) {
  if (adapter_id == nullptr) return Hr(StatusCode::kInvalidParameter3);
  return Guarded([&] {
    const Address wanted = Address::FromSockaddr(address, length);
    auto adapters = Adapter::QueryAdapters();
    if (!adapters.ok()) return Hr(adapters.status());
    for (const AdapterInfo& info : *adapters) {
      const auto same = [&](const Address& own) { return own.same_ip(wanted); };
      if (std::none_of(info.addresses.begin(), info.addresses.end(), same)) continue;
      *adapter_id = info.adapter_id;
      return Hr(StatusCode::kSuccess);
    }
    return Hr(StatusCode::kInvalidAddress);
  });
}

HRESULT ProviderObject::OpenAdapter(REFIID iid, UINT64 adapter_id, void** made) {
  if (made == nullptr) return E_POINTER;
  *made = nullptr;
  return Guarded([&] {
    auto adapters = Adapter::QueryAdapters();
    if (!adapters.ok()) return Hr(adapters.status());
    for (const AdapterInfo& info : *adapters) {
      if (info.adapter_id != adapter_id) continue;
      OpenOptions options;
      options.adapter = info.name;
      auto adapter = Adapter::Open(options);
      return adapter.ok() ? Give<AdapterObject>(iid, made, *adapter) : Hr(adapter.status());
    }
    return Hr(StatusCode::kInvalidParameter);
  });
}

}  // namespace nd::spi
