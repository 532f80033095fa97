// SPDX-License-Identifier: Apache-2.0
#include "base/os/user_win.h"

#include <bcrypt.h>

#include <cstddef>
#include <cstring>

namespace nd::os {
namespace {

// BCRYPT_SHA256_ALG_HANDLE, which the headers of mingw-w64 do not have.
const auto kSha256 = reinterpret_cast<BCRYPT_ALG_HANDLE>(0x41);

}  // namespace

std::uint32_t UserOfSid(PSID sid) {
  if (sid == nullptr || ::IsValidSid(sid) == 0) return kNobody;
  if (::IsWellKnownSid(sid, WinLocalSystemSid) != 0) return 0;
  unsigned char digest[32];
  if (::BCryptHash(kSha256, nullptr, 0, static_cast<unsigned char*>(sid), ::GetLengthSid(sid), digest,
                   sizeof digest) != 0)
    return kNobody;
  std::uint32_t number;
  std::memcpy(&number, digest, sizeof number);
  return number | 0x80000000u;
}

std::uint32_t UserOfOwner(PSID owner) {
  return owner != nullptr && ::IsWellKnownSid(owner, WinBuiltinAdministratorsSid) != 0 ? 0 : UserOfSid(owner);
}

std::uint32_t UserOfToken(HANDLE token) {
  alignas(TOKEN_USER) std::byte room[sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE];
  DWORD size = 0;
  if (::GetTokenInformation(token, TokenUser, room, sizeof room, &size) == 0) return kNobody;
  return UserOfSid(reinterpret_cast<TOKEN_USER*>(room)->User.Sid);
}

}  // namespace nd::os
