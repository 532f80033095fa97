// SPDX-License-Identifier: Apache-2.0
// The answer of QueryAddressList. Pure.
#pragma once

#include <winsock2.h>

#include <windows.h>

#include <span>

#include "nd/types.h"

namespace nd::spi {

// Writes the list and, behind it, the addresses that it points to. *size: the room on entry, the size that is
// needed on return. BUFFER_OVERFLOW: it does not fit, and nothing is written. INVALID_PARAMETER: no size.
StatusCode WriteAddressList(std::span<const Address> addresses, SOCKET_ADDRESS_LIST* list, ULONG* size);

}  // namespace nd::spi
