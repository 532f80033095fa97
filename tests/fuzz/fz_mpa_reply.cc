// SPDX-License-Identifier: Apache-2.0
// The connecting side of the start-up: a reply in arbitrary pieces, the decision of the application, and the
// answer to a Read RTR.
//
// Input: flags, piece sizes, the local offer, the limits of the adapter, then the bytes of the peer. Flags: 1
// plain "tcp" mode, 2 CRC not requested, 4+8 the decision of the application (confirm, reject, none yet, peer
// disconnects), 16 every byte comes before that decision.
#include "tests/fuzz/handshake_tools.h"

namespace nd::fuzz {
namespace {

using provider::soft::ActiveHandshake;
using provider::soft::HandshakeConfig;
using provider::soft::PortMode;
using Event = HandshakeStep::Event;
using Close = HandshakeStep::Close;

constexpr std::uint16_t kOurPort = 0x1234, kPeerPort = 0x5678;

struct Script {
  HandshakeConfig config;
  ReadLimits offer;
  std::uint8_t flags = 0, cuts = 0;
  bool separate() const { return config.mode == PortMode::kSeparate; }
};

bool Ended(const HandshakeStep& step) {
  return step.event == Event::kFailed || step.event == Event::kRejected || step.event == Event::kLost;
}

void CheckStart(const Script& script, const HandshakeStep& start) {
  const StartFrame request = ReadStartFrame(false, start.send);
  Require(request.verdict == StartFrame::Verdict::kWhole && request.size == start.send.size(), "a request");
  Require(request.revision == 2 && request.enhanced && !request.markers && !request.rejected &&
              request.crc == script.config.crc,
          "a request is of revision 2, enhanced and without markers");
  const unsigned most = 16382;
  Require(request.ird() == std::min(script.offer.inbound, most) &&
              request.ord() == std::min(script.offer.outbound, most),
          "the offer is what fits the words");
  Require((request.first & 0xC000) == 0x8000, "A is said, B never");
  Require((request.second & 0xC000) == (script.offer.outbound != 0 ? 0xC000u : 0x8000u),
          "a Read RTR is offered where a Read is");
}

// Checks the rows about replies of docs/wire.md section 2.
void CheckReply(const Script& script, Stream stream, const StartFrame& frame, const HandshakeStep& step,
                const ActiveHandshake& machine) {
  using Verdict = StartFrame::Verdict;
  if (frame.verdict == Verdict::kMore) return Require(!Speaks(step), "an incomplete reply is waited for");
  const auto refused = [&](Detail detail) {
    Require(step.event == Event::kFailed && step.status.code() == StatusCode::kConnectionRefused &&
                step.status.detail() == detail && step.close != Close::kNo,
            "a reply that will not do is CONNECTION_REFUSED");
  };
  if (frame.verdict == Verdict::kBad) return refused(Detail::kProtocol);
  if (stream.size() > frame.size && !frame.rejected)
    return Require(Ended(step), "nothing may follow a reply");
  if (frame.markers) return refused(Detail::kProtocol);
  const auto ports = ReadPortsHeader(frame.data);
  if (frame.rejected) {
    return Require(step.event == Event::kRejected && step.status.code() == StatusCode::kConnectionRefused &&
                       step.close == Close::kReset &&
                       (step.private_data.empty() || step.status.detail() == Detail::kPeerRejected),
                   "a rejection is told, with data only from an application");
  }
  if (script.separate() && (!ports || ports->source != kPeerPort || ports->destination != kOurPort)) {
    return refused(Detail::kProtocol);
  }
  const unsigned offered_in = std::min(script.offer.inbound, 16382u);
  const unsigned offered_out = std::min(script.offer.outbound, 16382u);
  if (frame.limits_known() && frame.ord() > std::max(offered_in, script.config.max_inbound)) {
    Require(step.event == Event::kFailed && step.status.code() == StatusCode::kInsufficientResources,
            "more Reads than the adapter serves are INSUFFICIENT_RESOURCES");
    return CheckFpdus(step.send, script.config.crc || frame.crc);
  }
  const bool peer_to_peer = frame.enhanced && (frame.first & 0x8000) != 0;
  const bool common = (frame.second & 0x8000) != 0 || ((frame.second & 0x4000) != 0 && offered_out != 0);
  if (peer_to_peer && !common) {
    refused(Detail::kProtocol);
    return CheckFpdus(step.send, script.config.crc || frame.crc);
  }
  Require(step.event == Event::kReply && step.close == Close::kNo && step.consumed == frame.size &&
              step.send.empty(),
          "a good reply is delivered");
  const Stream data = script.separate() ? frame.data.subspan(12) : frame.data;
  Require(std::equal(data.begin(), data.end(), step.private_data.begin(), step.private_data.end()),
          "private data arrives with its exact length");
  const provider::soft::Agreement& agreed = machine.agreement();
  Require(agreed.crc == (script.config.crc || frame.crc), "the CRC is on when either side asks");
  const ReadLimits limits = frame.limits_known() ? ReadLimits{frame.ord(), std::min(offered_out, frame.ird())}
                                                 : ReadLimits{offered_in, offered_out};
  Require(agreed.limits == limits, "the read limits follow the reply");
}

void CheckAfterConfirm(const HandshakeStep& step) {
  if (step.event == Event::kNone) return;
  if (step.event == Event::kEstablished)
    return Require(step.consumed == 20, "an empty Read Response is taken");
  Require(step.event == Event::kLost && step.close == Close::kReset && !step.status.ok(),
          "anything else than the response ends it");
}

struct Outcome {
  HandshakeStep reply, word, last;
};

Outcome Run(const Script& script, Stream stream, const Cuts& cuts, bool check) {
  ActiveHandshake machine(script.config, kOurPort, kPeerPort, script.offer, PickData(script.cuts, 240));
  const HandshakeStep start = machine.Start();
  CheckStart(script, start);
  const StartFrame frame = ReadStartFrame(true, stream);
  const bool early = (script.flags & 16) != 0 || frame.verdict != StartFrame::Verdict::kWhole;
  const Stream shown = early ? stream : stream.first(frame.size);
  Outcome out;
  out.reply = Play(machine, shown, cuts);
  if (out.reply.event == Event::kReply && shown.size() > out.reply.consumed) {
    out.reply = Play(machine, shown.subspan(out.reply.consumed), cuts);
  }
  if (check) CheckReply(script, shown, frame, out.reply, machine);
  if (out.reply.event != Event::kReply) {
    const HandshakeStep end = machine.OnClosed(provider::soft::Ending::kFin);
    Require(Ended(out.reply) ? end.event == Event::kNone : Ended(end), "a handshake ends once");
    return out;
  }
  if ((script.flags & 8) != 0) {
    out.word = machine.OnClosed((script.flags & 4) != 0 ? provider::soft::Ending::kReset
                                                        : provider::soft::Ending::kTimeout);
    Require(out.word.event == Event::kLost && !out.word.status.ok(), "a withdrawal is told");
    return out;
  }
  const bool crc = machine.agreement().crc;
  if ((script.flags & 4) != 0) {
    out.word = machine.Reject(PickData(script.cuts, 240));
    Require(out.word.close == Close::kGraceful && !out.word.send.empty(), "a rejection says so");
    CheckFpdus(out.word.send, crc);
    return out;
  }
  out.word = machine.Confirm();
  CheckFpdus(out.word.send, crc);
  if (out.word.event == Event::kEstablished) return out;
  Require(machine.deadline() == provider::soft::Deadline::kAnswer, "the answer to a Read has a time limit");
  out.last = Play(machine, stream.subspan(out.reply.consumed), cuts);
  CheckAfterConfirm(out.last);
  if (out.last.event == Event::kNone) {
    Require(machine.OnClosed(provider::soft::Ending::kReset).event == Event::kLost, "a break ends it");
  }
  return out;
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
  script.offer = PickLimits(input.Number());
  script.config.max_inbound = PickLimits(input.Number()).inbound;
  script.config.mode = (script.flags & 1) != 0 ? PortMode::kTcp : PortMode::kSeparate;
  script.config.crc = (script.flags & 2) == 0;
  const Stream stream = input.rest();
  const std::vector<std::byte> bytes = Exact(stream);
  const auto decoded = nd::provider::soft::wire::DecodeMpa(nd::provider::soft::wire::MpaKind::kReply, bytes);
  Require(!Name(decoded.fault).empty() && decoded.size <= bytes.size(), "a verdict has words");
  const Outcome whole = Run(script, stream, Cuts::Whole(), true);
  {
    const Cuts cuts = script.cuts == 0 ? Cuts::Single() : Cuts::Of(script.cuts);
    const Outcome other = Run(script, stream, cuts, false);
    const bool same = SameStep(whole.reply, other.reply) || (Ended(whole.reply) && Ended(other.reply));
    Require(same && SameStep(whole.word, other.word) && SameStep(whole.last, other.last),
            "the cuts of a stream change nothing");
  }
  return 0;
}
