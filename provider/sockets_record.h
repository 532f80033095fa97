// SPDX-License-Identifier: Apache-2.0
// The datagram of the fd lane by which a client gives sockets to the broker.
//
// A broker with foreign-network-namespaces = "serve" sets kGiveSockets in the token of a client whose network
// namespace is not its own. Before Hello such a client gives, with op_id 0, the sockets of its network
// namespace: one that reads routes, and a TCP socket of each family that it has. Before each Connect it gives
// one TCP socket of the family of the destination, with the op_id of the Connect. All are fresh: neither
// bound nor connected (base/os/given_socket.h). The broker binds, listens and connects.
//
// The descriptors travel in the datagram, exactly `fd_count` of them; no bytes follow the record.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "nd/status.h"

namespace nd::provider {

// A bit of TokenRecord::features.
inline constexpr std::uint32_t kGiveSockets = 0x2;

struct SocketsRecord {
  static constexpr std::uint32_t kMagic = 0x4E44534F;  // "NDSO"
  static constexpr std::uint32_t kMostOfNetwork = 3;

  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(SocketsRecord);
  std::uint64_t op_id = 0;  // 0: of the network namespace; otherwise the Connect that follows.
  std::uint32_t fd_count = 0;
  std::uint32_t reserved = 0;
};

// True: the datagram begins as this record does, whatever its version.
bool IsSocketsRecord(std::span<const std::byte> datagram);
// REMOTE_ERROR: another version or size, or a number of descriptors that it does not declare or that its
// op_id does not allow. `lost`: the receiver had no room for some of them.
Result<SocketsRecord> DecodeSocketsRecord(std::span<const std::byte> datagram, std::size_t descriptors,
                                          bool lost = false);
inline std::span<const std::byte> EncodeSocketsRecord(const SocketsRecord& record) {
  return std::as_bytes(std::span(&record, 1));
}

}  // namespace nd::provider
