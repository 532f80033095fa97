// SPDX-License-Identifier: Apache-2.0
// Frames for the tests of the two handshakes, and both roles connected by pipes.
#pragma once

#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/ndb_header.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft::handshake_test {

using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;
using handshake_internal::ReadResponseFrame;
using handshake_internal::RtrReadFrame;
using handshake_internal::RtrWriteFrame;
using handshake_internal::SendFrame;
using handshake_internal::TerminateFrame;

inline const Bytes kAsk = {1, 2, 3}, kAnswer = {9, 8};

inline HandshakeConfig Config(PortMode mode, bool crc = true) {
  return {mode, crc, 128};
}
inline wire::ByteSpan Span(const Bytes& bytes) {
  return wire::AsBytes(bytes);
}

inline Bytes Frame(wire::MpaFrame frame, const Bytes& data = {}) {
  frame.private_data = Span(data);
  Bytes bytes(wire::MpaFrameSize(frame));
  wire::EncodeMpa(frame, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

inline wire::MpaFrame Foreign(wire::MpaKind kind, std::uint8_t revision, bool enhanced,
                              wire::EnhancedWords words = {}) {
  wire::MpaFrame frame;
  frame.kind = kind;
  frame.revision = revision;
  frame.enhanced = enhanced;
  frame.words = words;
  return frame;
}

inline Bytes Join(const Bytes& a, const Bytes& b) {
  Bytes all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

// Computes the CRC of an altered frame again.
inline void Seal(Bytes* frame) {
  const std::size_t ulpdu = wire::LoadBig<std::uint16_t>(Span(*frame).data());
  wire::SealFpdu(std::as_writable_bytes(std::span(*frame)), ulpdu, true);
}

// Both roles, connected by lossless pipes.
struct Pair {
  explicit Pair(PortMode mode, ReadLimits offer = {16, 16}, bool active_crc = true, bool passive_crc = true)
      : active(Config(mode, active_crc), 50001, 7000, offer, kAsk), passive(Config(mode, passive_crc)) {}

  HandshakeStep Request() { return passive.OnInput(Span(sent = active.Start().send)); }
  HandshakeStep Accept(ReadLimits limits = {16, 16}) {
    accepted = passive.Accept(limits, kAnswer);
    return active.OnInput(Span(accepted.send));
  }
  HandshakeStep Confirm() { return passive.OnInput(Span(active.Confirm().send)); }

  ActiveHandshake active;
  PassiveHandshake passive;
  Bytes sent;
  HandshakeStep accepted;
};

}  // namespace nd::provider::soft::handshake_test
