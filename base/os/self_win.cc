// SPDX-License-Identifier: Apache-2.0
#include "base/os/self.h"

#include <io.h>

#include "base/os/user_win.h"

namespace nd::os {
namespace {

std::uint32_t OwnUser() {
  HANDLE token = nullptr;
  if (::OpenProcessToken(::GetCurrentProcess(), TOKEN_QUERY, &token) == 0) return kNobody;
  return UserOfToken(Handle(token).get());
}

}  // namespace

std::uint32_t ProcessNumber() {
  return ::GetCurrentProcessId();
}

std::uint32_t UserNumber() {
  static const std::uint32_t user = OwnUser();
  return user;
}

std::uint32_t EffectiveUserNumber() {
  return UserNumber();
}

// Every user has groups, and none of them is the group of the process.
std::uint32_t GroupNumber() {
  return UserNumber();
}

double ProcessorSeconds() {
  FILETIME made, ended, kernel, user;
  if (::GetProcessTimes(::GetCurrentProcess(), &made, &ended, &kernel, &user) == 0) return 0;
  const auto seconds = [](const FILETIME& t) {
    return static_cast<double>(std::uint64_t{t.dwHighDateTime} << 32 | t.dwLowDateTime) / 1e7;
  };
  return seconds(kernel) + seconds(user);
}

bool IsTerminal(Stream stream) {
  return ::_isatty(static_cast<int>(stream)) != 0;
}

}  // namespace nd::os
