// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/catalogue_win.h"

#include <winsock2.h>

#include <ws2spi.h>

#include <windows.h>

#include <algorithm>

#include "base/os/winsock_catalogue_win.h"
#include "nd-provider/ndspi_win.h"

namespace nd::spi {
namespace {

WSAPROTOCOL_INFOW Entry() {
  WSAPROTOCOL_INFOW entry{};
  entry.dwServiceFlags1 =
      XP1_GUARANTEED_DELIVERY | XP1_GUARANTEED_ORDER | XP1_MESSAGE_ORIENTED | XP1_CONNECT_DATA;
  entry.dwProviderFlags = PFL_HIDDEN | os::kNetworkDirectEntry;
  entry.ProviderId = kProviderClass;
  entry.ProtocolChain.ChainLen = 1;
  // The text of the documentation says 2; programs compare with the version of the interface.
  entry.iVersion = kVersion2;
  entry.iAddressFamily = AF_INET6;  // For IPv4 too.
  entry.iMaxSockAddr = 28;
  entry.iMinSockAddr = 16;
  entry.iSocketType = -1;
  static constexpr wchar_t kName[] = L"ndbroker Network Direct";
  std::copy(std::begin(kName), std::end(kName), entry.szProtocol);
  return entry;
}

Status Failed(const char* what, INT error) {
  const bool denied = error == WSAEACCES || error == WSANO_RECOVERY;
  return {denied ? StatusCode::kAccessDenied : StatusCode::kUnsuccessful,
          std::string(what) + ": error " + std::to_string(error) +
              (denied ? "; changing the Winsock catalogue needs an administrator" : ""),
          Detail::kNone, error};
}

}  // namespace

bool EntryExists() {
  return std::ranges::any_of(os::ReadWinsockCatalogue(), [](const WSAPROTOCOL_INFOW& entry) {
    return entry.ProviderId == kProviderClass;
  });
}

Status RemoveEntry() {
  GUID id = kProviderClass;
  INT error = 0;
  if (::WSCDeinstallProvider(&id, &error) == 0 || !EntryExists()) return {};
  return Failed("the entry of the Winsock catalogue cannot be removed", error);
}

Status InstallEntry(const std::wstring& path) {
  if (EntryExists()) {
    if (Status removed = RemoveEntry(); !removed.ok()) return removed;
  }
  GUID id = kProviderClass;
  WSAPROTOCOL_INFOW entry = Entry();
  INT error = 0;
  if (::WSCInstallProvider(&id, path.c_str(), &entry, 1, &error) != 0) {
    return Failed("the entry cannot be added to the Winsock catalogue", error);
  }
  if (EntryExists()) return {};
  static_cast<void>(RemoveEntry());
  return {StatusCode::kNotSupported,
          "the Winsock catalogue of this system takes no entries, although it says so; Wine does this"};
}

}  // namespace nd::spi
