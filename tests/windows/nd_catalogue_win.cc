// SPDX-License-Identifier: Apache-2.0
// Adds ndbrokernd.dll to the Winsock catalogue, or removes it, with the code of the DLL.
// usage: nd_catalogue install DLL | remove | show
#include <cstdio>
#include <string_view>

#include "nd-provider/catalogue_win.h"
#include "tests/windows/nd_dll_win.h"

int wmain(int count, wchar_t** arguments) {
  const std::wstring_view command = count > 1 ? arguments[1] : L"";
  nd::Status status;
  if (command == L"install" && count == 3) {
    status = nd::spi::InstallEntry(arguments[2]);
  } else if (command == L"remove" && count == 2) {
    status = nd::spi::RemoveEntry();
  } else if (command != L"show" || count != 2) {
    std::fprintf(stderr, "usage: nd_catalogue install DLL | remove | show\n");
    return 2;
  }
  if (!status.ok()) {
    std::fprintf(stderr, "nd_catalogue: %s\n", status.ToString().c_str());
    return 1;
  }
  std::printf("%ls\n", nd::spi::EntryExists() ? nd::spi::PathInCatalogue().c_str() : L"no entry");
  return 0;
}
