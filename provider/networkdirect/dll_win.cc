// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/dll_win.h"

#include <algorithm>
#include <bit>
#include <cstddef>

#include "base/os/access_win.h"

namespace nd::provider::networkdirect {
namespace {

using GetClassObject = HRESULT(STDMETHODCALLTYPE*)(REFCLSID, REFIID, void**);

// Calls query(list, size) of an adapter or a provider.
template <typename Query>
Result<std::vector<Address>> AddressesOf(Query query) {
  std::vector<std::byte> memory(4096);
  for (;;) {
    auto size = static_cast<ULONG>(memory.size());
    auto* const list = reinterpret_cast<SOCKET_ADDRESS_LIST*>(memory.data());
    const HRESULT hr = query(list, &size);
    if (CodeOf(hr) == StatusCode::kBufferOverflow && size > memory.size()) {
      memory.resize(size);
      continue;
    }
    if (Status status = StatusOf(hr, "QueryAddressList"); !status.ok()) return status;
    std::vector<Address> all;
    for (INT i = 0; i < list->iAddressCount; ++i) {
      const SOCKET_ADDRESS& one = list->Address[i];
      const Address address =
          Address::FromSockaddr(one.lpSockaddr, static_cast<std::size_t>(one.iSockaddrLength)).WithPort(0);
      if (address.well_formed()) all.push_back(address);
    }
    return all;
  }
}

AdapterInfo InfoOf(const spi::AdapterProperties& of) {
  AdapterInfo info;
  info.adapter_id = of.adapter_id;
  info.vendor_id = of.vendor_id;
  info.device_id = of.device_id;
  info.flags = of.flags;
  info.max_registration_size = of.max_registration_size;
  info.max_window_size = of.max_window_size;
  info.max_initiator_sge = of.max_initiator_sge;
  info.max_receive_sge = of.max_receive_sge;
  info.max_read_sge = of.max_read_sge;
  info.max_transfer_length = of.max_transfer_length;
  info.max_inline_data_size = of.max_inline_data_size;
  info.max_inbound_read_limit = of.max_inbound_read_limit;
  info.max_outbound_read_limit = of.max_outbound_read_limit;
  info.max_receive_queue_depth = of.max_receive_queue_depth;
  info.max_initiator_queue_depth = of.max_initiator_queue_depth;
  info.max_shared_receive_queue_depth = of.max_shared_receive_queue_depth;
  info.max_completion_queue_depth = of.max_completion_queue_depth;
  info.inline_request_threshold = of.inline_request_threshold;
  info.large_request_threshold = of.large_request_threshold;
  info.max_caller_data = of.max_caller_data;
  info.max_callee_data = of.max_callee_data;
  return info;
}

Result<AdapterInfo> Query(spi::IND2Provider& provider, UINT64 id) {
  Com<spi::IND2Adapter> adapter;
  HRESULT hr = provider.OpenAdapter(spi::kIid<spi::IND2Adapter>, id, adapter.out());
  if (Status status = StatusOf(hr, "OpenAdapter"); !status.ok()) return status;
  spi::AdapterProperties properties{};
  properties.version = spi::kVersion2;
  ULONG size = sizeof properties;
  hr = adapter->Query(&properties, &size);
  if (Status status = StatusOf(hr, "Query"); !status.ok()) return status;
  AdapterInfo info = InfoOf(properties);
  info.adapter_id = id;
  auto addresses =
      AddressesOf([&](auto* list, ULONG* bytes) { return adapter->QueryAddressList(list, bytes); });
  if (!addresses.ok()) return addresses.status();
  info.addresses = *std::move(addresses);
  return info;
}

}  // namespace

Result<Com<spi::IND2Provider>> LoadProvider(const std::string& path, const ClassId& class_id) {
  const auto failed = [&path](const std::string& what) {
    return Status(StatusCode::kDeviceNotReady, path + " " + what);
  };
  const HMODULE module = ::LoadLibraryW(os::WidePath(path).c_str());
  if (module == nullptr) return failed("cannot be loaded (error " + std::to_string(::GetLastError()) + ")");
  const auto get = reinterpret_cast<GetClassObject>(
      reinterpret_cast<void*>(::GetProcAddress(module, "DllGetClassObject")));
  if (get == nullptr) return failed("is no DLL of Network Direct: it has no DllGetClassObject");
  Com<spi::IND2Provider> provider;
  const HRESULT hr = get(std::bit_cast<GUID>(class_id), spi::kIid<spi::IND2Provider>, provider.out());
  if (FAILED(hr) || !provider) {
    return failed("has no provider of Network Direct version 2 under its class (" +
                  std::to_string(static_cast<std::uint32_t>(hr)) + ")");
  }
  return provider;
}

Result<std::vector<AdapterInfo>> QueryAdapters(spi::IND2Provider& provider) {
  auto addresses =
      AddressesOf([&](auto* list, ULONG* size) { return provider.QueryAddressList(list, size); });
  if (!addresses.ok()) return addresses.status();
  std::vector<AdapterInfo> all;
  for (const Address& address : *addresses) {
    std::byte whole[64] = {};
    const auto length = static_cast<ULONG>(address.ToSockaddr(whole));
    UINT64 id = 0;
    const HRESULT hr = provider.ResolveAddress(reinterpret_cast<const sockaddr*>(whole), length, &id);
    if (Status status = StatusOf(hr, "ResolveAddress"); !status.ok()) return status;
    if (std::ranges::any_of(all, [id](const AdapterInfo& known) { return known.adapter_id == id; })) continue;
    auto info = Query(provider, id);
    if (!info.ok()) return info.status();
    all.push_back(*std::move(info));
  }
  return all;
}

}  // namespace nd::provider::networkdirect
