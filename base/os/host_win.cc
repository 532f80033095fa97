// SPDX-License-Identifier: Apache-2.0
#include "base/os/host.h"

#include "base/os/user_win.h"

namespace nd::os {
namespace {

std::optional<std::uint32_t> Find(const std::string& name, bool group) {
  alignas(SID) std::byte sid[SECURITY_MAX_SID_SIZE];
  char domain[256];
  DWORD sid_size = sizeof sid, domain_size = sizeof domain;
  SID_NAME_USE use;
  if (::LookupAccountNameA(nullptr, name.c_str(), sid, &sid_size, domain, &domain_size, &use) == 0)
    return std::nullopt;
  const bool is_group = use == SidTypeGroup || use == SidTypeAlias || use == SidTypeWellKnownGroup;
  return is_group == group ? std::optional(UserOfSid(sid)) : std::nullopt;
}

}  // namespace

std::string HostName() {
  char name[64];
  DWORD size = sizeof name;
  return ::GetComputerNameExA(ComputerNameDnsHostname, name, &size) != 0 ? std::string(name, size)
                                                                         : std::string();
}

std::string SystemName() {
  OSVERSIONINFOEXW version{};
  version.dwOSVersionInfoSize = sizeof version;
  using GetVersion = LONG(WINAPI*)(OSVERSIONINFOEXW*);
  // GetVersionEx() reports the version that the program was made for.
  const auto get = reinterpret_cast<GetVersion>(
      reinterpret_cast<void*>(::GetProcAddress(::GetModuleHandleW(L"ntdll.dll"), "RtlGetVersion")));
  if (get == nullptr || get(&version) != 0) return "Windows";
  return "Windows " + std::to_string(version.dwMajorVersion) + "." + std::to_string(version.dwMinorVersion) +
         "." + std::to_string(version.dwBuildNumber) + " x86_64";
}

std::optional<std::uint32_t> FindUser(const std::string& name) {
  return Find(name, /*group=*/false);
}

std::optional<std::uint32_t> FindGroup(const std::string& name) {
  return Find(name, /*group=*/true);
}

}  // namespace nd::os
