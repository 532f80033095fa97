// SPDX-License-Identifier: Apache-2.0
// Users as numbers: the account of the system is 0, as root is elsewhere; every other account is a digest of
// its security identifier with the highest bit set, so that no account has the number of another by choice.
// Any thread.
#pragma once

#include <cstdint>

#include "base/os/object_win.h"

namespace nd::os {

// A number that no account has.
inline constexpr std::uint32_t kNobody = 1;

std::uint32_t UserOfSid(PSID sid);
std::uint32_t UserOfToken(HANDLE token);
// Of the owner of an object. What an administrator makes can belong to all of them, who count as the system.
std::uint32_t UserOfOwner(PSID owner);

}  // namespace nd::os
