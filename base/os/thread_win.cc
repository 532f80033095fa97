// SPDX-License-Identifier: Apache-2.0
#include "base/os/thread.h"

#include <windows.h>

#include <memory>
#include <string>
#include <system_error>

namespace nd::os {
namespace {

// The import library of mingw-w64 does not have it.
void Name(HANDLE thread, const char* name) {
  using Describe = HRESULT(WINAPI*)(HANDLE, PCWSTR);
  static const auto describe = reinterpret_cast<Describe>(
      reinterpret_cast<void*>(::GetProcAddress(::GetModuleHandleW(L"kernel32.dll"), "SetThreadDescription")));
  const std::string text = name;
  if (describe != nullptr) describe(thread, std::wstring(text.begin(), text.end()).c_str());
}

}  // namespace

void NameThread(std::thread& thread, const char* name) {
  Name(reinterpret_cast<HANDLE>(::pthread_gethandle(thread.native_handle())), name);
}

void NameThisThread(const char* name) {
  Name(::GetCurrentThread(), name);
}

bool StartLastingThread(const char* name, void (*run)(void* argument), void* argument) {
  try {
    std::thread thread(run, argument);
    NameThread(thread, name);
    thread.detach();
    return true;
  } catch (const std::system_error&) {
    return false;
  }
}

}  // namespace nd::os
