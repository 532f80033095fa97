// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/cm/catalogue_win.h"

#include "nd-provider/ndspi_win.h"

#include <ws2spi.h>

#include <bit>
#include <filesystem>

#include "base/os/winsock_catalogue_win.h"

namespace nd::provider::networkdirect {
namespace {

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
  std::vector<CatalogueEntry> found;
  for (const WSAPROTOCOL_INFOW& entry : os::ReadWinsockCatalogue()) {
    const bool network_direct = (entry.dwProviderFlags & os::kNetworkDirectEntry) != 0 &&
                                entry.iVersion == static_cast<int>(spi::kVersion2);
    if (!network_direct || entry.ProviderId == spi::kProviderClass) continue;
    const std::u8string path = std::filesystem::path(PathOf(entry.ProviderId)).u8string();
    if (path.empty()) continue;
    found.push_back({{path.begin(), path.end()}, std::bit_cast<ClassId>(entry.ProviderId)});
  }
  return found;
}

}  // namespace nd::provider::networkdirect
