// SPDX-License-Identifier: Apache-2.0
// The Winsock catalogue over a key of the registry, for Wine, whose catalogue is a fixed table:
// WSCInstallProvider answers success and does nothing, WSCGetProviderPath gives nothing,
// WSAProviderConfigChange fails. Linked ahead of ws2_32 into test programs only.
#include <winsock2.h>

#include <ws2spi.h>

#include <windows.h>

#include <cstring>
#include <cwchar>
#include <string>
#include <vector>

namespace {

constexpr wchar_t kKey[] = L"SOFTWARE\\ndbroker-test\\Winsock";

std::wstring SubkeyOf(const GUID& id) {
  wchar_t name[64];
  const unsigned char* tail = id.Data4;
  std::swprintf(name, std::size(name), L"\\{%08lX-%04X-%04X-%02X%02X%02X%02X%02X%02X%02X%02X}",
                static_cast<unsigned long>(id.Data1), id.Data2, id.Data3, tail[0], tail[1], tail[2], tail[3],
                tail[4], tail[5], tail[6], tail[7]);
  return std::wstring(kKey) + name;
}

}  // namespace

extern "C" {

int WSPAPI WSCInstallProvider(GUID* id, const WCHAR* path, WSAPROTOCOL_INFOW* entries, DWORD count,
                              INT* error) {
  HKEY key = nullptr;
  if (::RegCreateKeyExW(HKEY_LOCAL_MACHINE, SubkeyOf(*id).c_str(), 0, nullptr, 0, KEY_WRITE, nullptr, &key,
                        nullptr) != ERROR_SUCCESS) {
    *error = WSANO_RECOVERY;
    return SOCKET_ERROR;
  }
  ::RegSetValueExW(key, L"Path", 0, REG_EXPAND_SZ, reinterpret_cast<const BYTE*>(path),
                   static_cast<DWORD>((std::wcslen(path) + 1) * sizeof *path));
  ::RegSetValueExW(key, L"Info", 0, REG_BINARY, reinterpret_cast<const BYTE*>(entries),
                   static_cast<DWORD>(count * sizeof *entries));
  ::RegCloseKey(key);
  return 0;
}

int WSPAPI WSCDeinstallProvider(GUID* id, INT* error) {
  if (::RegDeleteKeyW(HKEY_LOCAL_MACHINE, SubkeyOf(*id).c_str()) == ERROR_SUCCESS) return 0;
  *error = WSAEFAULT;
  return SOCKET_ERROR;
}

int WSPAPI WSCEnumProtocols(INT* /*protocols*/, WSAPROTOCOL_INFOW* out, DWORD* length, INT* error) {
  std::vector<WSAPROTOCOL_INFOW> all;
  HKEY key = nullptr;
  if (::RegOpenKeyExW(HKEY_LOCAL_MACHINE, kKey, 0, KEY_READ, &key) == ERROR_SUCCESS) {
    wchar_t name[64];
    DWORD room = std::size(name);
    for (DWORD i = 0;
         ::RegEnumKeyExW(key, i, name, &room, nullptr, nullptr, nullptr, nullptr) == ERROR_SUCCESS;
         ++i, room = std::size(name)) {
      WSAPROTOCOL_INFOW entry;
      DWORD size = sizeof entry;
      if (::RegGetValueW(key, name, L"Info", RRF_RT_REG_BINARY, nullptr, &entry, &size) == ERROR_SUCCESS) {
        all.push_back(entry);
      }
    }
    ::RegCloseKey(key);
  }
  const auto needed = static_cast<DWORD>(all.size() * sizeof(WSAPROTOCOL_INFOW)), had = *length;
  *length = needed;
  if (out == nullptr || had < needed || needed == 0) {
    *error = WSAENOBUFS;
    return SOCKET_ERROR;
  }
  std::memcpy(out, all.data(), needed);
  return static_cast<int>(all.size());
}

int WSPAPI WSCGetProviderPath(GUID* id, WCHAR* path, INT* length, INT* error) {
  DWORD size = static_cast<DWORD>(*length) * sizeof *path;
  if (::RegGetValueW(HKEY_LOCAL_MACHINE, SubkeyOf(*id).c_str(), L"Path", RRF_RT_REG_EXPAND_SZ | RRF_NOEXPAND,
                     nullptr, path, &size) != ERROR_SUCCESS) {
    *error = WSAEINVAL;
    return SOCKET_ERROR;
  }
  *length = static_cast<INT>(size / sizeof *path);
  return 0;
}

// The catalogue does not change under a test: the first call gives a handle, the second never completes.
int WSAAPI SeamProviderConfigChange(HANDLE* handle, OVERLAPPED* overlapped,
                                    LPWSAOVERLAPPED_COMPLETION_ROUTINE /*routine*/) {
  if (overlapped != nullptr) {
    ::WSASetLastError(WSA_IO_PENDING);
    return SOCKET_ERROR;
  }
  wchar_t name[64];
  std::swprintf(name, std::size(name), L"\\\\.\\pipe\\catalogue-seam-%lu", ::GetCurrentProcessId());
  *handle = ::CreateNamedPipeW(name, PIPE_ACCESS_DUPLEX | FILE_FLAG_OVERLAPPED, 0, PIPE_UNLIMITED_INSTANCES,
                               64, 64, 0, nullptr);
  return *handle == INVALID_HANDLE_VALUE ? SOCKET_ERROR : 0;
}
// winsock2.h declares this one dllimport, so that callers go through the pointer.
void* __imp_WSAProviderConfigChange = reinterpret_cast<void*>(SeamProviderConfigChange);

}  // extern "C"
