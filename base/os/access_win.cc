// SPDX-License-Identifier: Apache-2.0
#include "base/os/access_win.h"

#include <aclapi.h>
#include <sddl.h>

#include <cerrno>
#include <cwchar>
#include <filesystem>

#include "base/os/user_win.h"

namespace nd::os {
namespace {

// An owned block of the local heap, which many functions of the system return.
struct Freed {
  void operator()(void* block) const { ::LocalFree(block); }
};

// The security identifier of this user as text; empty: unknown.
std::wstring OwnSidText() {
  HANDLE token = nullptr;
  if (::OpenProcessToken(::GetCurrentProcess(), TOKEN_QUERY, &token) == 0) return {};
  const Handle owned(token);
  alignas(TOKEN_USER) std::byte room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
  DWORD size = 0;
  LPWSTR text = nullptr;
  if (::GetTokenInformation(token, TokenUser, room, sizeof room, &size) == 0 ||
      ::ConvertSidToStringSidW(reinterpret_cast<TOKEN_USER*>(room)->User.Sid, &text) == 0) {
    return {};
  }
  const std::unique_ptr<wchar_t, Freed> freed(text);
  return text;
}

bool IsOwnSid(PSID sid) {
  const std::wstring own = OwnSidText();
  LPWSTR text = nullptr;
  if (own.empty() || ::ConvertSidToStringSidW(sid, &text) == 0) return false;
  const std::unique_ptr<wchar_t, Freed> freed(text);
  return own == text;
}

bool IsTrusted(PSID sid) {
  return ::IsWellKnownSid(sid, WinLocalSystemSid) != 0 ||
         ::IsWellKnownSid(sid, WinBuiltinAdministratorsSid) != 0 || IsOwnSid(sid);
}

}  // namespace

std::wstring WidePath(const std::string& path) {
  return std::filesystem::path(path).wstring();
}

NewAccess::NewAccess(ACCESS_MASK others, Inherited inherited) {
  const std::wstring own = OwnSidText();
  if (own.empty()) return;
  // The owner is named, because the default can be a group. Protected: a directory above adds nothing.
  std::wstring text = L"O:" + own + L"D:P";
  for (const std::wstring& who : {std::wstring(L"SY"), std::wstring(L"BA"), own}) {
    text += (inherited == Inherited::kYes ? L"(A;OICI;FA;;;" : L"(A;;FA;;;") + who + L")";
  }
  wchar_t rights[16];
  std::swprintf(rights, std::size(rights), L"0x%lx", others);
  if (others != 0) text += L"(A;;" + std::wstring(rights) + L";;;WD)";
  ::ConvertStringSecurityDescriptorToSecurityDescriptorW(text.c_str(), SDDL_REVISION_1, &descriptor_,
                                                         nullptr);
  attributes_ = {sizeof attributes_, descriptor_, FALSE};
}

NewAccess::~NewAccess() {
  ::LocalFree(descriptor_);
}

bool AccessOf(HANDLE file, FileAccess* access) {
  PSID owner = nullptr;
  PACL list = nullptr;
  PSECURITY_DESCRIPTOR descriptor = nullptr;
  const DWORD error =
      ::GetSecurityInfo(file, SE_FILE_OBJECT, OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION, &owner,
                        nullptr, &list, nullptr, &descriptor);
  const std::unique_ptr<void, Freed> freed(descriptor);
  if (error != ERROR_SUCCESS || owner == nullptr) {
    SetErrno(error);
    return false;
  }
  *access = {UserOfOwner(owner), IsTrusted(owner), list == nullptr, list == nullptr};  // No list: everybody.
  for (DWORD i = 0; list != nullptr && i < list->AceCount; ++i) {
    void* entry = nullptr;
    if (::GetAce(list, i, &entry) == 0) continue;
    const auto* head = static_cast<const ACE_HEADER*>(entry);
    if (head->AceType != ACCESS_ALLOWED_ACE_TYPE || (head->AceFlags & INHERIT_ONLY_ACE) != 0) continue;
    auto* const allowed = static_cast<ACCESS_ALLOWED_ACE*>(entry);
    PSID who = &allowed->SidStart;
    if (::EqualSid(who, owner) != 0 || IsTrusted(who)) continue;
    constexpr ACCESS_MASK kRead = FILE_READ_DATA | GENERIC_READ | GENERIC_ALL;
    constexpr ACCESS_MASK kWrite = FILE_WRITE_DATA | FILE_APPEND_DATA | FILE_DELETE_CHILD | DELETE |
                                   WRITE_DAC | WRITE_OWNER | GENERIC_WRITE | GENERIC_ALL;
    access->others_read |= (allowed->Mask & kRead) != 0;
    access->others_write |= (allowed->Mask & kWrite) != 0;
  }
  return true;
}

}  // namespace nd::os
