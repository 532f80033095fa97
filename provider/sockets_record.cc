// SPDX-License-Identifier: Apache-2.0
#include "provider/sockets_record.h"

#include <cstring>
#include <string>
#include <type_traits>

namespace nd::provider {

static_assert(std::is_trivially_copyable_v<SocketsRecord> && sizeof(SocketsRecord) == 24);

bool IsSocketsRecord(std::span<const std::byte> datagram) {
  std::uint32_t magic = 0;
  if (datagram.size() < sizeof magic) return false;
  std::memcpy(&magic, datagram.data(), sizeof magic);
  return magic == SocketsRecord::kMagic;
}

Result<SocketsRecord> DecodeSocketsRecord(std::span<const std::byte> datagram, std::size_t descriptors,
                                          bool lost) {
  const auto broken = [](const std::string& what) {
    return Status(StatusCode::kRemoteError, what, Detail::kProtocol);
  };
  const SocketsRecord right;
  SocketsRecord record;
  if (datagram.size() != sizeof record) {
    return broken("a sockets record of " + std::to_string(datagram.size()) + " bytes, expected " +
                  std::to_string(sizeof record));
  }
  std::memcpy(&record, datagram.data(), sizeof record);
  if (record.magic != right.magic || record.version != right.version || record.size != right.size) {
    return broken("a sockets record of version " + std::to_string(record.version) + " and size " +
                  std::to_string(record.size) + ", expected version " + std::to_string(right.version) +
                  " and size " + std::to_string(right.size));
  }
  if (lost ? record.fd_count <= descriptors : record.fd_count != descriptors) {
    return broken("a sockets record with " + std::to_string(descriptors) + " descriptors, declared " +
                  std::to_string(record.fd_count));
  }
  const std::uint32_t most = record.op_id == 0 ? SocketsRecord::kMostOfNetwork : 1;
  if (record.fd_count == 0 || record.fd_count > most) {
    return broken("a sockets record with " + std::to_string(record.fd_count) +
                  " descriptors, expected 1 to " + std::to_string(most));
  }
  return record;
}

}  // namespace nd::provider
