// SPDX-License-Identifier: Apache-2.0
// Builds the complete frames that a handshake sends.
#include <cstring>

#include "provider/soft/cm/handshake.h"
#include "provider/soft/wire/ndb_header.h"
#include "provider/soft/wire/terminate.h"

namespace nd::provider::soft::handshake_internal {
namespace {

Bytes FpduOf(const wire::Segment& header, wire::ByteSpan payload, bool crc) {
  const std::size_t ulpdu = wire::HeaderSize(header.opcode) + payload.size();
  Bytes frame(wire::FpduSize(ulpdu));
  const wire::MutableByteSpan bytes = std::as_writable_bytes(std::span(frame));
  const std::size_t size = wire::EncodeSegmentHeader(header, &bytes[wire::kFpduHeaderSize]);
  if (!payload.empty()) std::memcpy(&bytes[wire::kFpduHeaderSize + size], payload.data(), payload.size());
  wire::SealFpdu(bytes, ulpdu, crc);
  return frame;
}

}  // namespace

Bytes ToBytes(wire::ByteSpan span) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(span.data());
  return {data, data + span.size()};
}

Bytes TerminateFrame(const wire::Fault& fault, bool crc) {
  wire::Segment header;
  header.opcode = wire::Opcode::kTerminate;
  header.msn = 1;
  wire::Terminate terminate;
  terminate.fault = fault;
  std::array<std::byte, wire::kMaxTerminateSize> payload;
  const std::size_t size = wire::EncodeTerminate(terminate, wire::TerminateLayout::kRfc, payload);
  return FpduOf(header, wire::ByteSpan(payload).first(size), crc);
}

// The STags of both RTR frames are those of Linux siw; receivers ignore them.
Bytes RtrWriteFrame(bool crc) {
  wire::Segment header;
  header.opcode = wire::Opcode::kWrite;
  header.stag = 1;
  return FpduOf(header, {}, crc);
}

Bytes RtrReadFrame(bool crc) {
  wire::Segment header;
  header.opcode = wire::Opcode::kReadRequest;
  header.msn = 1;
  wire::ReadRequest request;
  request.source_stag = 1;
  std::array<std::byte, wire::kReadRequestSize> payload;
  wire::EncodeReadRequest(request, payload.data());
  return FpduOf(header, payload, crc);
}

Bytes ReadResponseFrame(std::uint32_t sink_stag, std::uint64_t sink_offset, bool crc) {
  wire::Segment header;
  header.opcode = wire::Opcode::kReadResponse;
  header.stag = sink_stag;
  header.offset = sink_offset;
  return FpduOf(header, {}, crc);
}

Bytes SendFrame(const Bytes& data, std::uint32_t msn, bool crc) {
  wire::Segment header;
  header.opcode = wire::Opcode::kSend;
  header.msn = msn;
  return FpduOf(header, wire::AsBytes(data), crc);
}

Bytes EncodeStartFrame(wire::MpaFrame frame, PortMode mode, std::uint16_t source_port,
                       std::uint16_t destination_port, Detail reason, const Bytes& private_data,
                       bool extensions) {
  Bytes data;
  if (mode == PortMode::kSeparate) {
    wire::NdbHeader header;
    header.reason = reason;
    header.flags =
        static_cast<std::uint16_t>(wire::kNdbConfirmationReads | (extensions ? wire::kNdbExtensions : 0));
    header.source_port = source_port;
    header.destination_port = destination_port;
    data.resize(wire::kNdbHeaderSize);
    wire::EncodeNdbHeader(header, std::as_writable_bytes(std::span(data)).data());
  }
  data.insert(data.end(), private_data.begin(), private_data.end());
  frame.private_data = wire::AsBytes(data);
  Bytes bytes(wire::MpaFrameSize(frame));
  wire::EncodeMpa(frame, std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

}  // namespace nd::provider::soft::handshake_internal
