// SPDX-License-Identifier: Apache-2.0
// Decoding accepts anything within bounds, because the stream ends anyway. Encoding is exact.
#include "provider/soft/wire/terminate.h"

#include <algorithm>

#include "provider/soft/wire/check.h"
#include "provider/soft/wire/mpa.h"

namespace nd::provider::soft::wire {
namespace {

// Third byte of the control word.
constexpr std::uint8_t kRfcLength = 0x80, kRfcDdp = 0x40, kRfcRdmap = 0x20;
constexpr std::uint8_t kSiwLength = 0x01, kSiwDdp = 0x02, kSiwRdmap = 0x04;

bool IsReadRequest(const DdpHeader& header) {
  return !header.tagged && (header.ulp_control & 0x0F) == static_cast<std::uint8_t>(Opcode::kReadRequest);
}

}  // namespace

TerminateLayout DetectTerminateLayout(ByteSpan payload) {
  if (payload.size() < kMinTerminateSize) return TerminateLayout::kRfc;
  const std::uint8_t bits = ToInt(payload[2]);
  const bool rfc = (bits & (kRfcLength | kRfcDdp | kRfcRdmap)) != 0;
  const bool siw = (bits & (kSiwLength | kSiwDdp | kSiwRdmap)) != 0;
  return siw && !rfc ? TerminateLayout::kSiw : TerminateLayout::kRfc;
}

std::optional<Terminate> DecodeTerminate(ByteSpan payload, TerminateLayout layout) {
  if (payload.size() < kMinTerminateSize) return std::nullopt;
  const bool rfc = layout == TerminateLayout::kRfc;
  const std::uint8_t first = ToInt(payload[0]);
  const std::uint8_t bits = ToInt(payload[2]);
  const auto high = static_cast<std::uint8_t>(first >> 4);
  const auto low = static_cast<std::uint8_t>(first & 0x0F);
  Terminate terminate;
  terminate.fault.layer = static_cast<Layer>(rfc ? high : low);
  terminate.fault.type = rfc ? low : high;
  terminate.fault.code = ToInt(payload[1]);

  ByteSpan rest = payload.subspan(kMinTerminateSize);
  if ((bits & (rfc ? kRfcLength : kSiwLength)) != 0) {
    if (rest.size() < 2) return terminate;
    terminate.segment_length = LoadBig<std::uint16_t>(rest.data());
    rest = rest.subspan(2);
  }
  if ((bits & (rfc ? kRfcDdp : kSiwDdp)) == 0) return terminate;
  DdpHeader header;
  // The payload behind the quoted header is not quoted, so only the header is checked.
  if (DecodeDdp(
          rest.first(std::min(rest.size(), rest.empty() || (ToInt(rest[0]) & 0x80) == 0 ? kUntaggedHeaderSize
                                                                                        : kTaggedHeaderSize)),
          &header)) {
    return terminate;
  }
  terminate.ddp_header = header;
  rest = rest.subspan(header.size());
  if ((bits & (rfc ? kRfcRdmap : kSiwRdmap)) != 0 && IsReadRequest(header) &&
      rest.size() >= kReadRequestSize) {
    terminate.read_request = DecodeReadRequest(rest.first(kReadRequestSize));
  }
  return terminate;
}

std::size_t EncodeTerminate(const Terminate& terminate, TerminateLayout layout,
                            std::span<std::byte, kMaxTerminateSize> to) {
  Check(terminate.fault.type <= 0x0F, "a Terminate error type has 4 bits");
  Check(!terminate.read_request || terminate.ddp_header, "a Terminate quotes RDMAP only behind DDP");
  const bool rfc = layout == TerminateLayout::kRfc;
  const unsigned layer = static_cast<unsigned>(terminate.fault.layer) & 0x0Fu;
  const unsigned type = terminate.fault.type;
  const unsigned bits = (terminate.segment_length ? (rfc ? kRfcLength : kSiwLength) : 0u) |
                        (terminate.ddp_header ? (rfc ? kRfcDdp : kSiwDdp) : 0u) |
                        (terminate.read_request ? (rfc ? kRfcRdmap : kSiwRdmap) : 0u);
  to[0] = static_cast<std::byte>(rfc ? layer << 4 | type : type << 4 | layer);
  to[1] = static_cast<std::byte>(terminate.fault.code);
  to[2] = static_cast<std::byte>(bits);
  to[3] = std::byte{0};
  std::size_t size = kMinTerminateSize;
  if (terminate.segment_length) {
    StoreBig(&to[size], *terminate.segment_length);
    size += 2;
  }
  if (terminate.ddp_header) size += EncodeDdp(*terminate.ddp_header, &to[size]);
  if (terminate.read_request) {
    EncodeReadRequest(*terminate.read_request, &to[size]);
    size += kReadRequestSize;
  }
  return size;
}

Terminate MakeTerminate(const Fault& fault, ByteSpan offending_ulpdu) {
  Terminate terminate;
  terminate.fault = fault;
  // MPA's own faults concern no DDP segment (RFC 5040 figure 10).
  if (fault.layer == Layer::kLlp || offending_ulpdu.size() > kMaxUlpdu) return terminate;
  DdpHeader header;
  const std::optional<Fault> header_fault = DecodeDdp(offending_ulpdu, &header);
  // A header with a wrapping offset is quoted. A truncated header or one of another version is not.
  if (header_fault && *header_fault != fault::kDdpOffsetWrap && *header_fault != fault::kMessageOffset) {
    return terminate;
  }
  terminate.segment_length = static_cast<std::uint16_t>(offending_ulpdu.size());
  terminate.ddp_header = header;
  const ByteSpan payload = offending_ulpdu.subspan(header.size());
  if (fault.layer == Layer::kRdmap && IsReadRequest(header) && payload.size() == kReadRequestSize) {
    terminate.read_request = DecodeReadRequest(payload);
  }
  return terminate;
}

}  // namespace nd::provider::soft::wire
