// SPDX-License-Identifier: Apache-2.0
// A service in the place of ndbrokerd, for tests/windows/service.sh: its process ends 90 seconds after it has
// reported its stop.
#include <windows.h>

namespace {

SERVICE_STATUS_HANDLE manager;

void Tell(DWORD state) {
  SERVICE_STATUS status{SERVICE_WIN32_OWN_PROCESS, state, SERVICE_ACCEPT_STOP, NO_ERROR, 0, 0, 0};
  ::SetServiceStatus(manager, &status);
}

DWORD WINAPI OnControl(DWORD control, DWORD, void*, void*) {
  if (control == SERVICE_CONTROL_STOP) Tell(SERVICE_STOPPED);
  return NO_ERROR;
}

void WINAPI ServiceMain(DWORD, wchar_t**) {
  manager = ::RegisterServiceCtrlHandlerExW(L"ndbrokerd", OnControl, nullptr);
  Tell(SERVICE_RUNNING);
}

}  // namespace

int main() {
  wchar_t name[] = L"ndbrokerd";
  const SERVICE_TABLE_ENTRYW services[] = {{name, ServiceMain}, {nullptr, nullptr}};
  if (::StartServiceCtrlDispatcherW(services) == 0) return 1;
  ::Sleep(90'000);
  return 0;
}
