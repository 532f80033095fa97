// SPDX-License-Identifier: Apache-2.0
// Plain values that applications, providers and the broker share.
#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nd/status.h"

struct sockaddr;

namespace nd {

// An IP address with an ND port, usually made by Parse("10.0.0.1:7000") or Parse("[::1]:7000"). It can hold
// a malformed address, for example FromSockaddr of a short buffer. The broker judges it, so that
// INVALID_ADDRESS comes from one place.
class Address {
 public:
  enum class Family : std::uint8_t { kUnspecified = 0, kIpv4 = 4, kIpv6 = 6, kOther = 255 };

  Address() = default;
  static Address V4(std::array<std::uint8_t, 4> ip, std::uint16_t port = 0);
  static Address V6(std::array<std::uint8_t, 16> ip, std::uint16_t port = 0);
  // "1.2.3.4", "1.2.3.4:5", "::1", "[::1]:5". INVALID_ADDRESS with the reason otherwise.
  static Result<Address> Parse(std::string_view text);
  // Reads at most `length` bytes and never fails; well_formed() tells whether the result is an address.
  static Address FromSockaddr(const sockaddr* address, std::size_t length);
  // Makes an address from the fields of a message; `ip` has up to 16 bytes.
  static Address FromParts(Family family, std::string_view ip, std::uint16_t port);

  Family family() const { return family_; }
  std::uint16_t port() const { return port_; }
  void set_port(std::uint16_t port) { port_ = port; }
  Address WithPort(std::uint16_t port) const;
  // The bytes of the IP in network order: 4, 16, or those of a malformed address.
  std::string_view ip() const { return {reinterpret_cast<const char*>(ip_.data()), ip_length_}; }

  bool well_formed() const;  // Known family and the right number of IP bytes.
  bool unspecified() const;  // 0.0.0.0 or ::
  bool multicast() const;    // Including the IPv4 broadcast address.
  bool same_ip(const Address& other) const { return family_ == other.family_ && ip() == other.ip(); }

  // Fills sockaddr storage of at least 28 bytes; returns the length used, 0 when malformed.
  std::size_t ToSockaddr(void* storage) const;
  std::string ToString() const;    // "1.2.3.4:5", "[::1]:5"
  std::string IpToString() const;  // "1.2.3.4", "::1"

  friend auto operator<=>(const Address&, const Address&) = default;

 private:
  Family family_ = Family::kUnspecified;
  std::uint8_t ip_length_ = 0;
  std::array<std::uint8_t, 16> ip_{};
  std::uint16_t port_ = 0;
};

// How many RDMA Reads may be in flight: `inbound` from the peer to this side, `outbound` from this side.
struct ReadLimits {
  std::uint32_t inbound = 0;
  std::uint32_t outbound = 0;
  friend bool operator==(const ReadLimits&, const ReadLimits&) = default;
};

// ND adapter flags, with the values of the specification.
enum AdapterFlags : std::uint32_t {
  kAdapterInOrderDma = 0x1,
  kAdapterReadSinkNotRequired = 0x2,
  kAdapterCqInterruptModeration = 0x4,
  kAdapterMultiEngine = 0x8,
  kAdapterCqResize = 0x100,
  kAdapterLoopback = 0x10000,
  // Not of the specification: UD queue pairs of verbs programs are forbidden on this adapter.
  kAdapterNoDatagrams = 0x80000000,
};

enum class RdmaTechnology : std::uint8_t { kUndefined = 0, kIwarp, kInfiniBand, kRoce, kRoceV2 };

struct AdapterInfo {
  std::string name;      // "soft0"
  std::string provider;  // "soft"
  std::uint64_t adapter_id = 0;
  std::uint32_t vendor_id = 0;
  std::uint32_t device_id = 0;
  RdmaTechnology technology = RdmaTechnology::kUndefined;
  std::uint32_t flags = 0;
  std::uint64_t max_registration_size = 0;
  std::uint64_t max_window_size = 0;
  std::uint32_t max_initiator_sge = 0;
  std::uint32_t max_receive_sge = 0;
  std::uint32_t max_read_sge = 0;
  std::uint32_t max_transfer_length = 0;
  std::uint32_t max_inline_data_size = 0;
  std::uint32_t max_inbound_read_limit = 0;
  std::uint32_t max_outbound_read_limit = 0;
  std::uint32_t max_receive_queue_depth = 0;
  std::uint32_t max_initiator_queue_depth = 0;
  std::uint32_t max_shared_receive_queue_depth = 0;
  std::uint32_t max_completion_queue_depth = 0;
  std::uint32_t inline_request_threshold = 0;
  std::uint32_t large_request_threshold = 0;
  std::uint32_t max_caller_data = 0;  // Private data of Connect, bytes.
  std::uint32_t max_callee_data = 0;  // Private data of Accept and of Reject, bytes.
  std::vector<Address> addresses;     // Port 0 in each.
};

// One piece of local memory in a work request.
struct Sge {
  void* address = nullptr;
  std::uint32_t length = 0;
  std::uint32_t local_token = 0;  // MemoryRegion::local_token(); ignored for inline data.
};

enum class RequestType : std::uint8_t {
  kReceive,
  kSend,
  kBind,
  kInvalidate,
  kRead,
  kWrite,
  kFetchAdd,
  kCompareSwap
};

enum CompletionFlags : std::uint8_t {
  kCompletionNoReceive = 0x1,  // IO_TIMEOUT of a Send: the peer posted no receive for it in time.
  kCompletionImmediate = 0x2,  // Of a receive: `immediate` is valid.
  kCompletionOfWrite =
      0x4,  // Of a receive: a Write with immediate took it; `bytes_transferred` is the Write's.
};

// One finished work request, as ND2_RESULT.
struct Completion {
  StatusCode status = StatusCode::kSuccess;
  std::uint32_t bytes_transferred = 0;
  void* queue_pair_context = nullptr;
  void* request_context = nullptr;
  RequestType type = RequestType::kReceive;
  std::uint8_t flags = 0;  // CompletionFlags
  std::uint32_t immediate = 0;
};

// Work request flags, with the values of the specification (ND_OP_FLAG_*).
enum OpFlags : std::uint32_t {
  kOpSilentSuccess = 0x1,
  kOpReadFence = 0x2,
  kOpSendAndSolicit = 0x4,
  kOpAllowRead = 0x8,    // Bind only
  kOpAllowWrite = 0x10,  // Bind only
  kOpInline = 0x20,
};

// Rights of a memory region (ND_MR_FLAG_*).
enum MemoryAccess : std::uint32_t {
  kAllowLocalWrite = 0x1,
  kAllowRemoteRead = 0x2,
  kAllowRemoteWrite = 0x5,  // Implies local write.
  kRdmaReadSink = 0x8,
  kAllowRemoteAtomic = 0x101,  // Not of the specification. Implies local write.
};

enum class NotifyType : std::uint8_t { kErrors = 0, kAny = 1, kSolicited = 2 };

// Why a connection ended (NDK Ex disconnect callback, `ndctl history`).
enum class DisconnectReason : std::uint8_t {
  kUnknown = 0,
  kPeerDisconnected = 1,
  kPeerProcessDied = 2,
  kPeerBrokerLost = 3,
  kTransportRetryExceeded = 4,
  kLocalAdministrator = 5,
  kAdapterDisabled = 6,
  kEstablishmentFailed = 7,
};
std::string_view Name(DisconnectReason reason);

}  // namespace nd
