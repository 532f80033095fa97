// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_fpdu and fz_terminate.
#include <array>

#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;

std::vector<std::byte> Fpdu(const wire::Segment& segment, std::size_t payload) {
  const std::size_t header = wire::HeaderSize(segment.opcode);
  std::vector<std::byte> frame(wire::FpduSize(header + payload));
  wire::EncodeSegmentHeader(segment, frame.data() + 2);
  for (std::size_t i = 0; i < payload; ++i) frame[2 + header + i] = static_cast<std::byte>(i * 5);
  wire::SealFpdu(frame, header + payload, true);
  return frame;
}

// Makes a valid frame around a ULPDU of any bytes.
std::vector<std::byte> Around(std::vector<std::uint8_t> ulpdu) {
  std::vector<std::byte> frame(wire::FpduSize(ulpdu.size()));
  if (!ulpdu.empty()) std::memcpy(frame.data() + 2, ulpdu.data(), ulpdu.size());
  wire::SealFpdu(frame, ulpdu.size(), true);
  return frame;
}

void AddFpdus(SeedWriter& writer) {
  const auto add = [&](std::string_view name, std::span<const std::byte> stream, unsigned flags = 0) {
    writer.Add("fpdu", name, Seed().U8(flags).Bytes(stream));
  };
  for (unsigned opcode = 0; opcode < wire::kOpcodeCount; ++opcode) {
    wire::Segment segment;
    segment.opcode = static_cast<wire::Opcode>(opcode);
    segment.stag = 0x11223344;
    segment.offset = 0x1000;
    segment.msn = 1;
    segment.invalidate_stag = 0x55667788;
    const std::size_t payload = opcode == 1 ? wire::kReadRequestSize : opcode == 7 ? 4 : 9;
    add("opcode-" + std::to_string(opcode), Fpdu(segment, payload));
  }
  wire::Segment write;
  write.opcode = wire::Opcode::kWrite;
  for (const std::size_t payload : {1450u, 4096u, 16384u}) {
    add("write-" + std::to_string(payload), Fpdu(write, payload));
  }
  write.offset = ~std::uint64_t{0} - 3;
  add("offset-wraps", Fpdu(write, 8));
  add("offset-ends-exactly", Fpdu(write, 4));
  write.last = false;
  add("crc-off", Fpdu(write, 4), 1);
  for (std::uint8_t size = 0; size < 19; ++size) {
    // siw computed the length of the payload without checking whether the header fits.
    std::vector<std::uint8_t> header(size, 0);
    if (size > 0) header[0] = size % 2 == 0 ? 0xC1 : 0x41;
    if (size > 1) header[1] = size % 2 == 0 ? 0x40 : 0x43;
    add("mpa-length-underflow-" + std::to_string(size), Around(header));
  }
  add("cve-2026-23242-bad-first-header",
      Around({0x42, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  add("rdmap-version-0", Around({0x41, 0x03, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  add("opcode-8", Around({0x41, 0x48, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0}));
  add("tagged-version", Around({0xC2, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  add("tagged-send", Around({0xC1, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}));
  add("send-on-queue-1", Around({0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0}));
  add("queue-3", Around({0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0}));
  add("offset-beyond-32-bits",
      Around({0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xFF, 0xFF, 0xFF, 0xFF, 0}));
  std::vector<std::uint8_t> read = {0x41, 0x41, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 0};
  add("read-request-without-body", Around(read));
  read.resize(18 + 29);
  add("read-request-too-long", Around(read));
  read.resize(18 + 28);
  read[17] = 4;
  add("read-request-in-pieces", Around(read));
  read[17] = 0;
  read[0] = 0x01;
  add("read-request-without-last", Around(read));
  add("terminate-without-body", Around({0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0}));
  std::vector<std::byte> two = Fpdu({}, 3);
  const std::vector<std::byte> second = Fpdu(write, 700);
  two.insert(two.end(), second.begin(), second.end());
  add("two-frames", two);
  two.erase(two.end() - 5, two.end());
  add("cut-off", two);
}

void AddTerminates(SeedWriter& writer) {
  wire::Terminate words;
  words.fault = wire::fault::kInvalidStag;
  words.segment_length = 46;
  wire::DdpHeader header;
  header.queue = 1;
  header.msn = 7;
  header.last = true;
  header.ulp_control = 0x41;
  words.ddp_header = header;
  words.read_request = wire::ReadRequest{1, 2, 3, 4, 5};
  const auto written = [&](const wire::Terminate& terminate, wire::TerminateLayout layout) {
    std::array<std::byte, wire::kMaxTerminateSize> payload;
    const std::size_t size = wire::EncodeTerminate(terminate, layout, payload);
    return std::vector<std::byte>(payload.begin(), payload.begin() + static_cast<std::ptrdiff_t>(size));
  };
  const auto add = [&](std::string_view name, unsigned flags, std::span<const std::byte> rest,
                       const wire::Fault& fault = {}) {
    Seed seed;
    seed.U8(flags).U8(static_cast<unsigned>(fault.layer)).U8(fault.type).U8(fault.code).Bytes(rest);
    writer.Add("terminate", name, seed);
  };
  std::vector<std::byte> whole = written(words, wire::TerminateLayout::kRfc);
  add("whole", 0, whole);
  add("siw-mirrored", 1, written(words, wire::TerminateLayout::kSiw));
  for (const std::size_t size : {3u, 4u, 5u, 6u, 7u, 8u, 23u, 24u, 51u}) {
    add("bogus-nested-header-" + std::to_string(size), 0, std::span(whole).first(size));
  }
  words.ddp_header->tagged = true;
  words.read_request.reset();
  add("tagged", 0, written(words, wire::TerminateLayout::kRfc));
  add("alone", 0, written({}, wire::TerminateLayout::kRfc));
  whole[6] = std::byte{0x42};
  add("nested-version", 0, whole);
  wire::Segment read;
  read.opcode = wire::Opcode::kReadRequest;
  const std::vector<std::byte> frame = Fpdu(read, wire::kReadRequestSize);
  const auto ulpdu = std::span(frame).subspan(2, wire::kUntaggedHeaderSize + wire::kReadRequestSize);
  add("quote-read-request", 2, ulpdu, wire::fault::kBounds);
  add("quote-nothing-for-mpa", 2, ulpdu, wire::fault::kCrc);
  add("quote-cut-off", 2, ulpdu.first(9), wire::fault::kMsnRange);
  wire::Segment write;
  write.opcode = wire::Opcode::kWrite;
  write.offset = ~std::uint64_t{0};
  const std::vector<std::byte> wraps = Fpdu(write, 2);
  add("quote-wrapping-write", 2, std::span(wraps).subspan(2, 16), wire::fault::kDdpOffsetWrap);
  // Every fault has a name, including those that no RFC defines.
  for (unsigned layer = 0; layer < 4; ++layer) {
    for (unsigned type = 0; type < 4; ++type) {
      const std::uint8_t control[] = {static_cast<std::uint8_t>(layer << 4 | type), 1, 0, 0};
      add("fault-" + std::to_string(layer) + "-" + std::to_string(type), 0,
          std::as_bytes(std::span(control)));
    }
  }
}

}  // namespace

void AddFrameSeeds(SeedWriter& writer) {
  AddFpdus(writer);
  AddTerminates(writer);
}

}  // namespace nd::fuzz
