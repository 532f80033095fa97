// SPDX-License-Identifier: Apache-2.0
// The Terminate message in both directions: any message of a peer is read safely, and written ones quote only
// existing bytes.
//
// Input: flags (1: layout of siw, 2: quote the rest as an offending ULPDU), fault (3), then the payload.
#include <array>
#include <cstring>

#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/terminate.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;

bool Same(const wire::Terminate& a, const wire::Terminate& b) {
  return a.fault == b.fault && a.segment_length == b.segment_length && a.ddp_header == b.ddp_header &&
         a.read_request == b.read_request;
}

// Writes the message and reads it again, in both layouts.
void CheckRoundTrip(const wire::Terminate& terminate) {
  for (const auto layout : {wire::TerminateLayout::kRfc, wire::TerminateLayout::kSiw}) {
    std::array<std::byte, wire::kMaxTerminateSize> written;
    const std::size_t size = wire::EncodeTerminate(terminate, layout, written);
    Require(size >= wire::kMinTerminateSize && size <= wire::kMaxTerminateSize, "a Terminate has its size");
    const std::vector<std::byte> exact(written.begin(), written.begin() + static_cast<std::ptrdiff_t>(size));
    const auto read = wire::DecodeTerminate(exact, layout);
    Require(read.has_value() && Same(*read, terminate), "a Terminate survives being written and read");
    if (terminate.segment_length || terminate.ddp_header) {
      Require(wire::DetectTerminateLayout(exact) == layout, "the layout is recognised");
    }
  }
}

void CheckPayload(std::span<const std::uint8_t> bytes, wire::TerminateLayout layout) {
  const std::vector<std::byte> payload = Exact(bytes);
  const auto terminate = wire::DecodeTerminate(payload, layout);
  Require(terminate.has_value() == (bytes.size() >= wire::kMinTerminateSize),
          "last words are understood when their control word is there");
  if (!terminate) return;
  Require(!wire::Describe(terminate->fault).empty(), "every fault can be described");
  Require(!terminate->read_request || terminate->ddp_header, "a Read Request is quoted behind its header");
  const std::size_t quoted = (terminate->segment_length ? 2u : 0u) +
                             (terminate->ddp_header ? terminate->ddp_header->size() : 0u) +
                             (terminate->read_request ? wire::kReadRequestSize : 0u);
  Require(wire::kMinTerminateSize + quoted <= bytes.size(), "nothing is quoted that is not there");
  CheckRoundTrip(*terminate);
}

void CheckQuoting(std::span<const std::uint8_t> bytes, const wire::Fault& fault) {
  const std::vector<std::byte> ulpdu = Exact(bytes);
  const wire::Terminate terminate = wire::MakeTerminate(fault, ulpdu);
  Require(terminate.fault == fault, "it says the fault that it was made for");
  if (fault.layer == wire::Layer::kLlp) {
    Require(!terminate.segment_length && !terminate.ddp_header, "MPA's faults quote nothing");
  }
  if (terminate.segment_length) Require(*terminate.segment_length == bytes.size(), "the length is quoted");
  CheckRoundTrip(terminate);
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  Input input(data, size);
  const auto flags = input.Number();
  wire::Fault fault;
  fault.layer = static_cast<wire::Layer>(input.Number() & 0x0F);
  fault.type = input.Number() & 0x0F;
  fault.code = input.Number();
  const auto rest = input.rest();
  if ((flags & 2) != 0) {
    CheckQuoting(rest.first(std::min(rest.size(), wire::kMaxUlpdu)), fault);
  } else {
    const std::vector<std::byte> payload = Exact(rest);
    CheckPayload(rest, (flags & 1) != 0 ? wire::TerminateLayout::kSiw : wire::TerminateLayout::kRfc);
    CheckPayload(rest, wire::DetectTerminateLayout(payload));
  }
  return 0;
}
