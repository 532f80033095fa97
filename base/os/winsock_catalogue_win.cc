// SPDX-License-Identifier: Apache-2.0
#include "base/os/winsock_catalogue_win.h"

#include <ws2spi.h>

namespace nd::os {

std::vector<WSAPROTOCOL_INFOW> ReadWinsockCatalogue() {
  std::vector<WSAPROTOCOL_INFOW> entries(64);
  for (;;) {
    auto size = static_cast<DWORD>(entries.size() * sizeof(WSAPROTOCOL_INFOW));
    INT error = 0;
    const int count = ::WSCEnumProtocols(nullptr, entries.data(), &size, &error);
    const std::size_t wanted = size / sizeof(WSAPROTOCOL_INFOW) + 1;
    if (count < 0 && error == WSAENOBUFS && wanted > entries.size()) {
      entries.resize(wanted);
      continue;
    }
    entries.resize(count < 0 ? 0 : static_cast<std::size_t>(count));
    return entries;
  }
}

}  // namespace nd::os
