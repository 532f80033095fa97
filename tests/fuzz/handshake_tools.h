// SPDX-License-Identifier: Apache-2.0
// Drives a handshake machine as a socket would, in pieces of any size, and parses start-up frames a second
// time, without the codec.
#pragma once

#include <optional>
#include <vector>

#include "provider/soft/cm/handshake.h"
#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {

using Stream = std::span<const std::uint8_t>;
using provider::soft::HandshakeStep;

// The sizes of the pieces of a stream, repeated cyclically.
struct Cuts {
  std::vector<std::size_t> sizes;
  static Cuts Whole() { return {{1u << 20}}; }
  static Cuts Single() { return {{1}}; }
  static Cuts Of(std::uint8_t script) {
    return {{1u + script % 7, 1u + script / 7 % 19, 1u + script / 133u * 50}};
  }
};

// Returns true when the driver must act on the step.
inline bool Speaks(const HandshakeStep& step) {
  return step.event != HandshakeStep::Event::kNone || step.close != HandshakeStep::Close::kNo ||
         step.consumed != 0 || !step.send.empty();
}

// Shows growing parts of the stream until the driver must act. At the end of the stream the step is empty.
template <typename Machine>
HandshakeStep Play(Machine& machine, Stream stream, const Cuts& cuts) {
  std::size_t shown = 0;
  for (std::size_t i = 0; shown < stream.size(); ++i) {
    shown = std::min(stream.size(), shown + cuts.sizes[i % cuts.sizes.size()]);
    // A driver peeks no further than this.
    const std::size_t peek = std::min(shown, provider::soft::kHandshakePeek);
    const std::vector<std::byte> bytes = Exact(stream.first(peek));
    HandshakeStep step = machine.OnInput(bytes);
    Require(step.consumed <= peek, "nothing is consumed that was not shown");
    if (Speaks(step)) return step;
    Require(shown <= provider::soft::kHandshakePeek, "the bytes of one look always suffice");
  }
  return {};
}

inline bool SameStep(const HandshakeStep& a, const HandshakeStep& b) {
  return a.event == b.event && a.close == b.close && a.consumed == b.consumed && a.send == b.send &&
         a.status.ToString() == b.status.ToString() && a.limits_known == b.limits_known &&
         a.limits == b.limits && a.private_data == b.private_data && a.source_port == b.source_port &&
         a.destination_port == b.destination_port;
}

inline bool SameAgreement(const provider::soft::Agreement& a, const provider::soft::Agreement& b) {
  return a.crc == b.crc && a.confirmation_reads == b.confirmation_reads && a.limits == b.limits &&
         a.read_msn_out == b.read_msn_out && a.read_msn_in == b.read_msn_in;
}

// A start-up frame according to docs/wire.md section 2.
struct StartFrame {
  enum class Verdict { kMore, kBad, kWhole } verdict = Verdict::kMore;
  std::size_t size = 0;
  std::uint8_t flags = 0, revision = 0;
  bool markers = false, crc = false, rejected = false, enhanced = false;
  unsigned first = 0, second = 0;  // The two words.
  Stream data;                     // Behind the two words.
  unsigned ird() const { return first & 0x3FFF; }
  unsigned ord() const { return second & 0x3FFF; }
  bool limits_known() const { return enhanced && ird() != 16383 && ord() != 16383; }
};
StartFrame ReadStartFrame(bool reply, Stream bytes);

// The header of separate mode.
struct PortsHeader {
  unsigned reason = 0, flags = 0, source = 0, destination = 0;
};
std::optional<PortsHeader> ReadPortsHeader(Stream data);

// Checks the output of the machine in full operation: whole FPDUs with a good CRC.
void CheckFpdus(Stream sent, bool crc);

// Picks one of four significant combinations of limits by bits of the input.
ReadLimits PickLimits(std::uint8_t bits);
provider::Bytes PickData(std::uint8_t length, std::size_t most);

// Corrects the CRCs behind the start-up frame, for LLVMFuzzerCustomMutator.
void RepairBehindStartFrame(std::span<std::uint8_t> stream);

}  // namespace nd::fuzz
