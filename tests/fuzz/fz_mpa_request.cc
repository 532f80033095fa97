// SPDX-License-Identifier: Apache-2.0
// The accepting side of the start-up: a request in arbitrary pieces, the answer of an application, and the
// first frame.
//
// Input: flags, piece sizes, limits, length of the private data of the answer, then the bytes of the peer.
// Flags: 1 plain "tcp" mode, 2 CRC not requested, 4+8 the answer (accept, reject, none yet, peer
// disconnects), 16 every byte comes before the answer.
#include "tests/fuzz/handshake_tools.h"

namespace nd::fuzz {
namespace {

using provider::soft::HandshakeConfig;
using provider::soft::PassiveHandshake;
using provider::soft::PortMode;
using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;

struct Script {
  HandshakeConfig config;
  std::uint8_t flags = 0, cuts = 0, limits = 0, data = 0;
  bool separate() const { return config.mode == PortMode::kSeparate; }
};

bool Ended(const HandshakeStep& step) {
  return step.event == Event::kDropped || step.event == Event::kLost;
}

// Checks the result of the request alone.
void CheckRequest(const Script& script, Stream stream, const StartFrame& frame, const HandshakeStep& step) {
  using Verdict = StartFrame::Verdict;
  if (frame.verdict == Verdict::kMore) return Require(!Speaks(step), "an incomplete request is waited for");
  if (frame.verdict == Verdict::kBad || stream.size() > frame.size) {
    return Require(Ended(step) && step.close == Close::kReset && step.send.empty(),
                   "a bad request, or bytes behind one, end it without a word");
  }
  const auto ports = ReadPortsHeader(frame.data);
  if (script.separate() && !ports)
    return Require(Ended(step) && step.send.empty(), "a foreign request ends it");
  if (frame.markers) {
    Require(step.event == Event::kDropped && step.close == Close::kGraceful, "markers are refused politely");
    const StartFrame reply = ReadStartFrame(true, step.send);
    Require(reply.verdict == StartFrame::Verdict::kWhole && reply.size == step.send.size() &&
                reply.rejected && !reply.markers && reply.revision == frame.revision,
            "the refusal is a reply with R");
    return;
  }
  Require(step.event == Event::kRequest && step.close == Close::kNo && step.consumed == frame.size &&
              step.send.empty(),
          "a good request is delivered and nothing else happens");
  Require(step.limits_known == frame.limits_known(), "limits are known when the words say them");
  if (step.limits_known) {
    Require(step.limits.inbound == frame.ird() && step.limits.outbound == frame.ord(),
            "limits are the words");
  }
  const Stream data = script.separate() ? frame.data.subspan(12) : frame.data;
  Require(std::equal(data.begin(), data.end(), step.private_data.begin(), step.private_data.end()),
          "private data arrives with its exact length");
  if (script.separate()) {
    Require(step.source_port == ports->source && step.destination_port == ports->destination,
            "ports are the header's");
  }
}

void CheckReply(const Script& script, const StartFrame& request, const HandshakeStep& step, bool accepted) {
  const StartFrame reply = ReadStartFrame(true, step.send);
  Require(reply.verdict == StartFrame::Verdict::kWhole && reply.size == step.send.size(),
          "one reply is sent");
  Require(reply.revision == request.revision && reply.enhanced == request.enhanced && !reply.markers &&
              reply.rejected == !accepted && reply.crc == (script.config.crc || request.crc),
          "a reply repeats revision and S, and agrees on the CRC");
  Stream data = reply.data;
  if (script.separate()) {
    const auto asked = ReadPortsHeader(request.data);
    const auto said = ReadPortsHeader(data);
    Require(asked && said && said->source == asked->destination && said->destination == asked->source,
            "a reply mirrors the ports");
    data = data.subspan(12);
  }
  if (!accepted) return;
  const bool peer_to_peer = request.enhanced && (request.first & 0x8000) != 0;
  Require(((reply.first & 0x8000) != 0) == peer_to_peer && (reply.first & 0x4000) == 0,
          "A is answered, and B never offered");
  const bool read_only = (request.second & 0xC000) == 0x4000;
  const unsigned rtr = !peer_to_peer ? 0u : read_only ? 0x4000u : 0x8000u;
  Require((reply.second & 0xC000) == rtr, "exactly one ready-to-receive frame is named");
  Require(!reply.enhanced || (reply.ird() <= 16382 && reply.ord() <= 16382), "limits fit their words");
  Require(step.event == (peer_to_peer ? Event::kNone : Event::kEstablished),
          "a peer without RTR is established at once");
}

// Gives the answer, then the rest of the stream.
HandshakeStep Answer(const Script& script, PassiveHandshake& machine) {
  const std::size_t most = script.separate() ? provider::soft::kMaxSeparateData : provider::soft::kMaxTcpData;
  if ((script.flags & 4) != 0) return machine.Reject(Detail::kPeerRejected, PickData(script.data, most));
  return machine.Accept(PickLimits(script.limits), PickData(script.data, most));
}

void CheckFirstFrame(const PassiveHandshake& machine, Stream rest, const HandshakeStep& step) {
  if (step.event == Event::kNone) return;
  const bool crc = machine.agreement().crc;
  Require(step.event == Event::kEstablished || step.event == Event::kLost, "the first frame decides");
  if (step.event == Event::kEstablished) {
    Require(step.close == Close::kNo, "an established connection stays open");
    const std::size_t frame = (2u + rest[0] * 256u + rest[1] + 3u) / 4u * 4u + 4u;
    if (step.consumed == 0) {
      Require(step.send.empty(), "data stays where it is");
      // The queue pair checks a frame that is too long to be peeked as a whole.
      return Require(frame > provider::soft::kHandshakePeek || (rest.size() > 3 && (rest[3] & 0x0F) != 7),
                     "a Terminate establishes nothing");
    }
    Require(step.consumed == frame, "exactly the ready-to-receive frame is taken");
    Require(machine.agreement().read_msn_in == (step.send.empty() ? 1u : 2u), "a Read RTR uses MSN 1");
  } else {
    Require(!step.status.ok() && step.close != Close::kNo, "a broken start-up ends with a reason");
  }
  CheckFpdus(step.send, crc);
}

void Run(const Script& script, Stream stream, const Cuts& cuts, HandshakeStep* request, HandshakeStep* first,
         provider::soft::Agreement* agreement) {
  PassiveHandshake machine(script.config);
  Require(machine.deadline() == provider::soft::Deadline::kRequest, "a request has a time limit");
  const StartFrame frame = ReadStartFrame(false, stream);
  const bool early = (script.flags & 16) != 0 || frame.verdict != StartFrame::Verdict::kWhole;
  const Stream asked = early ? stream : stream.first(frame.size);
  *request = Play(machine, asked, cuts);
  if (request->event == Event::kRequest && asked.size() > request->consumed) {
    *request = Play(machine, asked.subspan(request->consumed), cuts);
  }
  *first = {};
  *agreement = {};
  if (request->event != Event::kRequest) {
    // A stream that breaks off here must end the machine exactly once.
    const bool over = Ended(*request);
    const HandshakeStep end = machine.OnClosed(provider::soft::Ending::kReset);
    Require(over ? end.event == Event::kNone : Ended(end), "a handshake ends once");
    return;
  }
  if ((script.flags & 8) != 0) {
    const HandshakeStep end = machine.OnClosed((script.flags & 4) != 0 ? provider::soft::Ending::kFin
                                                                       : provider::soft::Ending::kTimeout);
    return Require(end.event == Event::kLost && !end.status.ok(), "an application learns that its peer left");
  }
  const HandshakeStep answer = Answer(script, machine);
  CheckReply(script, frame, answer, (script.flags & 4) == 0);
  *agreement = machine.agreement();
  if (answer.event != Event::kNone || answer.close != Close::kNo) return;
  const Stream rest = stream.subspan(request->consumed);
  *first = Play(machine, rest, cuts);
  CheckFirstFrame(machine, rest, *first);
  *agreement = machine.agreement();
  if (first->event == Event::kNone) {
    Require(Ended(machine.OnClosed(provider::soft::Ending::kFin)), "a stream that breaks off ends it");
  }
}

}  // namespace
}  // namespace nd::fuzz

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size > 4 && seed % 8 != 0) nd::fuzz::RepairBehindStartFrame({data + 4, size - 4});
  return size;
}

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  Input input(data, size);
  Script script;
  script.flags = input.Number();
  script.cuts = input.Number();
  script.limits = input.Number();
  script.data = input.Number();
  script.config.mode = (script.flags & 1) != 0 ? PortMode::kTcp : PortMode::kSeparate;
  script.config.crc = (script.flags & 2) == 0;
  const Stream stream = input.rest();
  const std::vector<std::byte> bytes = Exact(stream);
  const auto decoded =
      nd::provider::soft::wire::DecodeMpa(nd::provider::soft::wire::MpaKind::kRequest, bytes);
  Require(!Name(decoded.fault).empty() && decoded.size <= bytes.size(), "a verdict has words");

  HandshakeStep request, first;
  nd::provider::soft::Agreement agreement;
  Run(script, stream, Cuts::Whole(), &request, &first, &agreement);
  const StartFrame frame = ReadStartFrame(false, stream);
  const bool early = (script.flags & 16) != 0 || frame.verdict != StartFrame::Verdict::kWhole;
  CheckRequest(script, early ? stream : stream.first(frame.size), frame, request);
  {
    const Cuts cuts = script.cuts == 0 ? Cuts::Single() : Cuts::Of(script.cuts);
    HandshakeStep other_request, other_first;
    nd::provider::soft::Agreement other_agreement;
    Run(script, stream, cuts, &other_request, &other_first, &other_agreement);
    // Bytes behind a request end the handshake: before the request is delivered if they have arrived by then,
    // otherwise after it.
    const bool same = SameStep(request, other_request) || (Ended(request) && Ended(other_request));
    Require(same && SameStep(first, other_first) && SameAgreement(agreement, other_agreement),
            "the cuts of a stream change nothing");
  }
  return 0;
}
