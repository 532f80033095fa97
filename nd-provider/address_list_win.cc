// SPDX-License-Identifier: Apache-2.0
#include "nd-provider/address_list_win.h"

#include <ws2tcpip.h>

#include <algorithm>
#include <cstddef>

namespace nd::spi {
namespace {

std::size_t SizeOf(const Address& address) {
  return address.family() == Address::Family::kIpv6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

}  // namespace

StatusCode WriteAddressList(std::span<const Address> addresses, SOCKET_ADDRESS_LIST* list, ULONG* size) {
  if (size == nullptr) return StatusCode::kInvalidParameter;
  std::size_t needed = offsetof(SOCKET_ADDRESS_LIST, Address) + addresses.size() * sizeof(SOCKET_ADDRESS);
  std::byte* next = reinterpret_cast<std::byte*>(list) + needed;
  for (const Address& address : addresses) needed += SizeOf(address);
  const ULONG room = *size;
  *size = static_cast<ULONG>(needed);
  if (list == nullptr || room < needed) return StatusCode::kBufferOverflow;
  list->iAddressCount = static_cast<INT>(addresses.size());
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    std::byte whole[sizeof(sockaddr_in6)] = {};
    const std::size_t length = SizeOf(addresses[i]);
    addresses[i].ToSockaddr(whole);
    std::copy(whole, whole + length, next);
    list->Address[i].lpSockaddr = reinterpret_cast<sockaddr*>(next);
    list->Address[i].iSockaddrLength = static_cast<INT>(length);
    next += length;
  }
  return StatusCode::kSuccess;
}

}  // namespace nd::spi
