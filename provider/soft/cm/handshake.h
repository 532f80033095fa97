// SPDX-License-Identifier: Apache-2.0
// The MPA start-up of one connection, both roles, as state machines without I/O, clock or thread.
//
//   active   Start -> [reply] -> Replied -> Confirm (RTR frame) -> Established
//                                        -> Reject
//   passive  [request] -> Incoming -> Accept (reply) -> [RTR frame] -> Established
//                                  -> Reject
//
// Whenever more bytes have arrived, the driver passes all unread bytes of the stream (it peeks;
// kHandshakePeek bytes suffice). It then removes `consumed` bytes, sends `send`, reports `event` and closes
// if the step says so. After an event that ends the handshake no member may be called. Bytes that belong to
// the queue pair are never consumed. When a Deadline passes, the driver calls OnClosed(kTimeout).
#pragma once

#include <cstddef>
#include <cstdint>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/cm.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"

namespace nd::provider::soft {

inline constexpr std::size_t kHandshakePeek = 1024;
inline constexpr std::size_t kMaxSeparateData = 240;  // Private data behind the 12-byte header.
inline constexpr std::size_t kMaxTcpData = 248;       // Linux siw breaks above 251.

enum class PortMode : std::uint8_t {
  kSeparate,  // Own port space: the 12-byte header leads the private data (docs/wire.md).
  kTcp,       // ND port = TCP port, plain MPA.
};

struct HandshakeConfig {
  PortMode mode = PortMode::kSeparate;
  bool crc = true;                // Ask for CRC32c; on when either side asks (RFC 5044 7.1.1).
  std::uint32_t max_inbound = 0;  // Reads that this adapter can serve on one connection.
  bool extensions = false;        // Active: the connecting application knows kHandOffExtensions.
};

// The result of the negotiation, for the hand-over. Valid once Established.
struct Agreement {
  bool crc = false;
  bool confirmation_reads = false;
  bool extensions = false;  // Both applications know kHandOffExtensions.
  ReadLimits limits;        // Of this side.
  std::uint32_t read_msn_out = 1, read_msn_in = 1;
};

enum class Ending : std::uint8_t { kFin, kReset, kTimeout };

// The timer that bounds the present wait. No timer bounds the wait for an application (behaviour b.9).
enum class Deadline : std::uint8_t { kNone, kRequest, kAnswer };

struct HandshakeStep {
  enum class Event : std::uint8_t {
    kNone,
    kRequest,      // Passive: limits, private_data, ports.
    kReply,        // Active: limits (the peer's), private_data.
    kRejected,     // Active, ends: status, private_data.
    kFailed,       // Active, ends: status.
    kEstablished,  // Ends; agreement() is valid.
    kLost,         // After request or reply, ends: status, private_data.
    kDropped,      // Passive, before the request: the connection ends and is not reported to the core.
  };
  enum class Close : std::uint8_t { kNo, kGraceful, kReset };

  Event event = Event::kNone;
  Close close = Close::kNo;
  std::size_t consumed = 0;
  Bytes send;
  Status status;
  bool limits_known = true;
  ReadLimits limits;
  Bytes private_data;
  std::uint16_t source_port = 0, destination_port = 0;  // Separate mode.
};

class ActiveHandshake {
 public:
  // `offer` is capped to the maximum of the enhanced words. CHECKs that `private_data` fits the mode's limit.
  ActiveHandshake(const HandshakeConfig& config, std::uint16_t source_port, std::uint16_t destination_port,
                  const ReadLimits& offer, const Bytes& private_data);

  HandshakeStep Start();
  HandshakeStep OnInput(wire::ByteSpan unread);
  HandshakeStep OnClosed(Ending ending);
  // Only after kReply.
  HandshakeStep Confirm();
  HandshakeStep Reject(const Bytes& private_data);

  Deadline deadline() const {
    return state_ == State::kAwaitReadResponse ? Deadline::kAnswer : Deadline::kNone;
  }
  const Agreement& agreement() const { return agreement_; }

 private:
  enum class State : std::uint8_t { kNew, kAwaitReply, kReplied, kAwaitReadResponse, kDone };
  enum class Rtr : std::uint8_t { kNone, kWrite, kRead };

  HandshakeStep OnReply(const wire::MpaFrame& frame, std::size_t size);
  HandshakeStep OnRefusal(const wire::MpaFrame& frame);
  HandshakeStep OnReadResponse(wire::ByteSpan unread);
  HandshakeStep Fail(StatusCode code, const std::string& message, Detail detail);

  HandshakeConfig config_;
  std::uint16_t source_port_, destination_port_;
  ReadLimits offer_;
  Bytes private_data_;
  State state_ = State::kNew;
  Rtr rtr_ = Rtr::kNone;
  Agreement agreement_;
};

class PassiveHandshake {
 public:
  explicit PassiveHandshake(const HandshakeConfig& config);

  HandshakeStep OnInput(wire::ByteSpan unread);
  HandshakeStep OnClosed(Ending ending);
  // Only after kRequest. For a peer without peer-to-peer mode Accept returns kEstablished at once.
  // `extensions`: the accepting application knows kHandOffExtensions.
  HandshakeStep Accept(const ReadLimits& limits, const Bytes& private_data, bool extensions = false);
  HandshakeStep Reject(Detail reason, const Bytes& private_data);

  Deadline deadline() const { return state_ == State::kAwaitRequest ? Deadline::kRequest : Deadline::kNone; }
  // Accept() or Reject() was called.
  bool answered() const { return state_ == State::kAwaitRtr || state_ == State::kDone; }
  const Agreement& agreement() const { return agreement_; }

 private:
  enum class State : std::uint8_t { kAwaitRequest, kIncoming, kAwaitRtr, kDone };

  HandshakeStep OnRequest(const wire::MpaFrame& frame, std::size_t size);
  HandshakeStep OnFirstFrame(wire::ByteSpan unread);
  HandshakeStep OnFirstData();
  HandshakeStep OnRtr(const wire::FpduDecoded& frame, const wire::Segment& segment);
  HandshakeStep OnFirstSend(wire::ByteSpan rest, const wire::Segment& send);
  HandshakeStep OnTerminate(const wire::Segment& segment, const Bytes& private_data);
  HandshakeStep Broken(const wire::Fault& fault, const std::string& message);
  wire::MpaFrame ReplyFrame() const;
  HandshakeStep SendReply(wire::MpaFrame frame, Detail reason, const Bytes& private_data, bool extensions);

  HandshakeConfig config_;
  State state_ = State::kAwaitRequest;
  std::uint8_t revision_ = 2;
  bool enhanced_ = false, crc_requested_ = false, peer_extensions_ = false;
  wire::EnhancedWords peer_words_;
  std::uint16_t peer_source_port_ = 0, peer_destination_port_ = 0;
  bool rtr_is_read_ = false;
  Agreement agreement_;
};

namespace handshake_internal {
// The complete frames of the handshake that are not MPA frames.
Bytes TerminateFrame(const wire::Fault& fault, bool crc);
Bytes RtrWriteFrame(bool crc);
Bytes RtrReadFrame(bool crc);
Bytes ReadResponseFrame(std::uint32_t sink_stag, std::uint64_t sink_offset, bool crc);
Bytes SendFrame(const Bytes& data, std::uint32_t msn, bool crc);
Bytes EncodeStartFrame(wire::MpaFrame frame, PortMode mode, std::uint16_t source_port,
                       std::uint16_t destination_port, Detail reason, const Bytes& private_data,
                       bool extensions = false);
Bytes ToBytes(wire::ByteSpan span);
}  // namespace handshake_internal

}  // namespace nd::provider::soft
