// SPDX-License-Identifier: Apache-2.0
// The datagrams of the fd lane. The first kind hands an established transport from the broker to a client.
//
// The record is one fixed struct in host byte order (both ends are on one host). Its
// descriptors travel in the same datagram, exactly `fd_count` of them. A client whose Hello has the bit
// session::kClientTakesTogether may get a MessageRecord with messages behind it. The provider that made the
// record decides what they are, and how many: provider/soft/transports.h, provider/verbs/transport.h. The
// receiver copies the record, checks the copy (docs/wire.md) and uses the copy.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/unique_fd.h"
#include "nd/types.h"

namespace nd::provider {

// Each provider has numbers of its own; none is used twice.
enum class TransportKind : std::uint32_t { kNone = 0 };

enum HandOffFlags : std::uint32_t {
  kHandOffActive = 0x1,   // This side called Connect.
  kHandOffCrc = 0x2,      // CRC32c is on in both directions.
  kHandOffConfirm = 0x4,  // Both ends are ndbroker: a zero-length Read confirms delivery (docs/wire.md).
  kHandOffFlushOnGoodbye = 0x10,  // Compatibility: receives complete with CANCELED when the peer disconnects.
  kHandOffShareMemory = 0x8,      // The peer may map this process's nd::Buffer memory and the reverse.
  // Both libraries, and the brokers between them, know Sends and Writes with immediate and atomic operations.
  kHandOffExtensions = 0x20,
};

struct HandOffRecord {
  static constexpr std::uint32_t kMagic = 0x4E44484F;  // "NDHO"
  static constexpr std::uint16_t kVersion = 1;

  std::uint32_t magic = kMagic;
  std::uint16_t version = kVersion;
  std::uint16_t size = sizeof(HandOffRecord);
  std::uint64_t id = 0;         // Matches Completion.hand_off.
  std::uint64_t connector = 0;  // The connector's handle.
  TransportKind transport = TransportKind::kNone;
  std::uint32_t fd_count = 0;
  std::uint32_t flags = 0;
  std::uint32_t read_inbound = 0;  // Final limits of this side.
  std::uint32_t read_outbound = 0;
  std::array<std::byte, 28> payload{};  // Known to the provider alone: a struct of its own of this size.
  std::uint32_t peer_uid = 0;
  std::uint32_t peer_pid = 0;
};
static_assert(std::is_trivially_copyable_v<HandOffRecord>);

template <typename Payload>
Payload PayloadOf(const HandOffRecord& record) {
  return std::bit_cast<Payload>(record.payload);
}
template <typename Payload>
void SetPayload(const Payload& payload, HandOffRecord* record) {
  record->payload = std::bit_cast<decltype(record->payload)>(payload);
}

struct HandOff {
  HandOffRecord record;
  std::vector<UniqueFd> fds;
  // The rest stays in the broker.
  Address wire_local, wire_peer;  // The addresses on the wire, for display; default: none.
  std::string_view transport;     // Its name for display: "iwarp". Lives for ever.
  bool close_may_block = true;    // Closing a descriptor may wait for a peer or a device.
};

// Other datagrams of the fd lane. Broker to client, first: Token; then a CountersPage for every 256 queue
// pairs. Client to broker: Ack of each HandOff and CountersPage. Both ways: Messages, when the session uses
// the lane and not gRPC.
enum TokenFeatures : std::uint32_t {
  kLaneMessages = 0x1,  // The broker accepts Messages, so the session may use the lane.
  // 0x2: provider/sockets_record.h. 0x10: provider/halves_record.h.
  kLaneManyMessages = 0x4,         // It accepts several ClientMessages in one datagram.
  kReattachMakesQueuePairs = 0x8,  // Reattach without a queue pair makes one.
};

struct TokenRecord {
  static constexpr std::uint32_t kMagic = 0x4E44544B;  // "NDTK"
  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(TokenRecord);
  std::uint8_t token[16] = {};
  std::uint32_t features = 0;
  std::uint32_t reserved = 0;
};

struct CountersPageRecord {
  static constexpr std::uint32_t kMagic = 0x4E444350;  // "NDCP"
  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(CountersPageRecord);
  std::uint64_t id = 0;
  std::uint32_t first_slot = 0;
  std::uint32_t slot_count = 0;  // One descriptor: a memfd of slot_count * sizeof(QpCounters).
  std::uint32_t fd_count = 1;
  std::uint32_t reserved = 0;
};

struct AckRecord {
  static constexpr std::uint32_t kMagic = 0x4E44414B;  // "NDAK"
  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(AckRecord);
  std::uint64_t id = 0;  // HandOffRecord::id or CountersPageRecord::id.
};

// The beginning of a datagram; behind it any number of ndbroker.v1.ServerMessages, or one ClientMessage, or
// several with kLaneManyMessages; each behind its length as a std::uint32_t.
struct MessageRecord {
  static constexpr std::uint32_t kMagic = 0x4E444D47;  // "NDMG"
  std::uint32_t magic = kMagic;
  std::uint16_t version = 1;
  std::uint16_t size = sizeof(MessageRecord);  // Without the messages.
};
// The maximum sizes of one datagram. The larger one fits the default send buffer of a socket.
inline constexpr std::size_t kMaxClientMessage = 64 * 1024;
inline constexpr std::size_t kMaxServerMessage = 128 * 1024;
inline constexpr std::size_t kMaxClientDatagram =
    sizeof(MessageRecord) + sizeof(std::uint32_t) + kMaxClientMessage;
inline constexpr std::size_t kMaxServerDatagram =
    sizeof(MessageRecord) + sizeof(std::uint32_t) + kMaxServerMessage;

}  // namespace nd::provider
