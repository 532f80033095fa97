// SPDX-License-Identifier: Apache-2.0
#include "provider/halves_record.h"

#include <cstring>
#include <string>

namespace nd::provider {

bool IsHalvesRecord(std::span<const std::byte> datagram) {
  std::uint32_t magic = 0;
  if (datagram.size() < sizeof magic) return false;
  std::memcpy(&magic, datagram.data(), sizeof magic);
  return magic == HalvesRecord::kMagic;
}

Result<HalvesMessage> DecodeHalvesRecord(std::span<const std::byte> datagram) {
  HalvesRecord record;
  const HalvesRecord right;
  const auto bad = [](const std::string& what) { return Status(StatusCode::kRemoteError, what); };
  if (datagram.size() < sizeof record) return bad("a message of a provider without its whole record");
  std::memcpy(&record, datagram.data(), sizeof record);
  if (record.version != right.version || record.size != right.size) {
    return bad("a message of a provider of version " + std::to_string(record.version) + " and size " +
               std::to_string(record.size) + ", expected version " + std::to_string(right.version) +
               " and size " + std::to_string(right.size));
  }
  const std::span<const std::byte> message = datagram.subspan(sizeof record);
  if (record.length != message.size() || message.size() > kMaxHalvesMessage) {
    return bad("a message of a provider with " + std::to_string(message.size()) + " bytes, declared " +
               std::to_string(record.length) + ", at most " + std::to_string(kMaxHalvesMessage));
  }
  return HalvesMessage{record.transport, message};
}

std::vector<std::byte> EncodeHalvesRecord(TransportKind transport, std::span<const std::byte> message) {
  HalvesRecord record;
  record.transport = transport;
  record.length = static_cast<std::uint32_t>(message.size());
  std::vector<std::byte> datagram(sizeof record + message.size());
  std::memcpy(datagram.data(), &record, sizeof record);
  if (!message.empty()) std::memcpy(datagram.data() + sizeof record, message.data(), message.size());
  return datagram;
}

}  // namespace nd::provider
