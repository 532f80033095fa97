// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/catalogue_win.h"

#include "nd-provider/ndspi_win.h"

#include <ws2spi.h>

#include <bit>
#include <filesystem>

namespace nd::provider::networkdirect {
namespace {

// PFL_NETWORKDIRECT_PROVIDER, which older headers lack.
constexpr DWORD kNetworkDirectEntry = 0x10;

// Empty: the system does not tell it.
std::wstring PathOf(GUID id) {
  wchar_t path[MAX_PATH], expanded[MAX_PATH];
  INT length = MAX_PATH, error = 0;
  if (::WSCGetProviderPath(&id, path, &length, &error) != 0) return {};
  const DWORD size = ::ExpandEnvironmentStringsW(path, expanded, MAX_PATH);
  return size == 0 || size > MAX_PATH ? std::wstring() : std::wstring(expanded);
}

}  // namespace

std::vector<CatalogueEntry> ReadCatalogue() {
  DWORD size = 0;
  INT error = 0;
  ::WSCEnumProtocols(nullptr, nullptr, &size, &error);
  std::vector<WSAPROTOCOL_INFOW> all(size / sizeof(WSAPROTOCOL_INFOW) + 1);
  size = static_cast<DWORD>(all.size() * sizeof(WSAPROTOCOL_INFOW));
  const int count = ::WSCEnumProtocols(nullptr, all.data(), &size, &error);
  std::vector<CatalogueEntry> found;
  for (int i = 0; i < count; ++i) {
    const WSAPROTOCOL_INFOW& entry = all[static_cast<std::size_t>(i)];
    const bool network_direct = (entry.dwProviderFlags & kNetworkDirectEntry) != 0 &&
                                entry.iVersion == static_cast<int>(spi::kVersion2);
    if (!network_direct || entry.ProviderId == spi::kProviderClass) continue;
    const std::u8string path = std::filesystem::path(PathOf(entry.ProviderId)).u8string();
    if (path.empty()) continue;
    found.push_back({{path.begin(), path.end()}, std::bit_cast<ClassId>(entry.ProviderId)});
  }
  return found;
}

}  // namespace nd::provider::networkdirect
