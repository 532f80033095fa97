// SPDX-License-Identifier: Apache-2.0
// The Winsock catalogue, in which the system lists the providers of sockets and of Network Direct. Any
// thread.
#pragma once

#include <winsock2.h>

#include <vector>

namespace nd::os {

// PFL_NETWORKDIRECT_PROVIDER, which older headers lack.
inline constexpr DWORD kNetworkDirectEntry = 0x10;

// All entries, hidden ones too. None: the system does not tell them.
std::vector<WSAPROTOCOL_INFOW> ReadWinsockCatalogue();

}  // namespace nd::os
