// SPDX-License-Identifier: Apache-2.0
// Seeds of fz_rdmap and fz_ring.
#include <optional>

#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/transport.h"
#include "tests/fuzz/rdmap_script.h"
#include "tests/fuzz/ring_script.h"
#include "tests/fuzz/seeds.h"

namespace nd::fuzz {
namespace {

constexpr unsigned kFour = 2, kSixteen = 3;  // Read limits.

// Four Reads each way; with additional `flags`.
Seed Script(unsigned flags, unsigned reads = kFour) {
  return Seed().U8((flags & 0xFF) | reads << kInboundShift | reads << kOutboundShift).U8(flags >> 8);
}

Step Segment(unsigned opcode, Target target, unsigned length, unsigned a = kLastSegment, unsigned where = 0,
             int delta = 0, int odd = 0) {
  return {StepKind::kSegment,
          static_cast<std::uint8_t>(opcode | a),
          static_cast<std::uint8_t>(static_cast<unsigned>(target) | where),
          static_cast<std::uint8_t>(delta),
          static_cast<std::uint8_t>(delta >> 8),
          static_cast<std::uint8_t>(length),
          static_cast<std::uint8_t>(length >> 8),
          static_cast<std::uint8_t>(odd)};
}

Step Local(StepKind kind, unsigned length, unsigned c = 0) {
  return {kind, static_cast<std::uint8_t>(length), static_cast<std::uint8_t>(length >> 8),
          static_cast<std::uint8_t>(c)};
}

constexpr unsigned kWriteOp = 0, kReadOp = 1, kResponseOp = 2, kSendOp = 3, kSendInvalidateOp = 4,
                   kTerminateOp = 7;

class RdmapSeeds {
 public:
  explicit RdmapSeeds(SeedWriter& writer) : writer_(writer) {}
  void Add(std::string_view name, std::initializer_list<Step> steps, unsigned flags = 0,
           unsigned reads = kFour) {
    Seed seed = Script(flags, reads);
    for (const Step& step : steps) seed.Raw(step);
    writer_.Add("rdmap", name, seed);
  }
  // Adds one ULPDU of any bytes.
  void AddRaw(std::string_view name, const std::vector<std::uint8_t>& ulpdu, unsigned flags = 0,
              std::optional<Step> before = std::nullopt) {
    Seed seed = Script(flags);
    if (before) seed.Raw(*before);
    seed.Raw(Step{StepKind::kRaw, static_cast<std::uint8_t>(ulpdu.size())});
    seed.Bytes(std::span<const std::uint8_t>(ulpdu));
    writer_.Add("rdmap", name, seed);
  }

 private:
  SeedWriter& writer_;
};

void AddGoodTraffic(RdmapSeeds& seeds) {
  seeds.Add("receive-one-send", {Local(StepKind::kReceive, 100), Segment(kSendOp, Target::kZero, 60)});
  seeds.Add("receive-in-pieces",
            {Local(StepKind::kReceive, 3000, 1), Segment(kSendOp, Target::kZero, 1000, 0),
             Segment(kSendOp, Target::kZero, 1000, 0), Segment(kSendOp, Target::kZero, 1000)});
  seeds.Add("write-to-the-end", {Segment(kWriteOp, Target::kWritable, 16, kLastSegment, kFromEnd, -16)});
  seeds.Add("write-a-part", {Segment(kWriteOp, Target::kPart, 1000)});
  seeds.Add("read-the-page", {Segment(kReadOp, Target::kReadable, 4096)});
  seeds.Add("read-two-at-once", {Segment(kReadOp, Target::kReadable, 100, kLastSegment | kMoreFollows),
                                 Segment(kReadOp, Target::kReadable, 0, kLastSegment | kOddMsn, 0, 0, 1)});
  seeds.Add("our-reads", {Local(StepKind::kRead, 3000),
                          {StepKind::kAnswer, 3},
                          Local(StepKind::kRead, 0),
                          {StepKind::kAnswer},
                          {StepKind::kAnswer}});
  seeds.Add("our-sends", {Local(StepKind::kSend, 10),
                          Local(StepKind::kSend, 3999, 4),
                          Local(StepKind::kWrite, 64, 1),
                          {StepKind::kAnswer},
                          {StepKind::kAnswer},
                          {StepKind::kHangUp}});
  seeds.Add("our-sends-to-a-stranger", {Local(StepKind::kSend, 2000), Local(StepKind::kWrite, 3000, 2)},
            kForeignPeer);
  seeds.Add("window", {{StepKind::kBind},
                       Segment(kWriteOp, Target::kOwnWindow, 500),
                       Segment(kReadOp, Target::kOwnWindow, 500),
                       {StepKind::kInvalidate},
                       Segment(kWriteOp, Target::kOwnWindow, 1)});
  seeds.Add("peer-invalidates", {{StepKind::kBind},
                                 Local(StepKind::kReceive, 50),
                                 Segment(kSendInvalidateOp, Target::kOwnWindow, 20),
                                 Segment(kWriteOp, Target::kOwnWindow, 1)});
  seeds.Add("received-count",
            {Local(StepKind::kSend, 5), Segment(kWriteOp, Target::kZero, 0, kLastSegment, kSmallOffset, 1)},
            0, 0);
  seeds.Add("goodbye-of-ours", {Local(StepKind::kSend, 5),
                                {StepKind::kAnswer},
                                {StepKind::kDisconnect, 1},
                                Segment(kSendOp, Target::kZero, 5),
                                {StepKind::kHangUp}});
  seeds.Add("flush", {Local(StepKind::kReceive, 100),
                      Segment(kSendOp, Target::kZero, 10, 0),
                      Local(StepKind::kRead, 5),
                      {StepKind::kFlush},
                      Segment(kSendOp, Target::kZero, 10),
                      {StepKind::kAnswer}});
  seeds.Add("held-then-received",
            {Segment(kSendOp, Target::kZero, 10), Segment(kWriteOp, Target::kWritable, 8),
             Local(StepKind::kReceive, 100)},
            kPatient);
  seeds.Add("answer-behind-a-held-send",
            {Local(StepKind::kRead, 3000),
             Segment(kSendOp, Target::kZero, 10),
             {StepKind::kAnswer, 2},
             Local(StepKind::kRead, 5),
             {StepKind::kAnswer},
             Local(StepKind::kReceive, 100)},
            kPatient);
  seeds.Add("crc-off",
            {Local(StepKind::kReceive, 100), Segment(kSendOp, Target::kZero, 60, kLastSegment | kSpoiled)},
            kNoCrc);
}

void AddBadTraffic(RdmapSeeds& seeds) {
  seeds.AddRaw("cve-2026-23242-bad-first-header",
               {0x42, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0});
  seeds.AddRaw("cve-2026-68417-frame-before-the-queue-pair",
               {0x41, 0x43, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 'x'}, kBeforeAttach);
  seeds.AddRaw("mpa-length-underflow", {0xC1, 0x40, 0, 0, 0, 0, 0});
  seeds.AddRaw("mpa-length-zero", {});
  // The STag of the data of the first Read.
  std::vector<std::uint8_t> response = {0xC1, 0x42, 0x9E, 0x37, 0x79, 0xB1, 0, 0, 0, 0, 0, 0, 0, 0};
  response.resize(response.size() + 32, 0xEE);
  seeds.AddRaw("cve-2026-64268-read-response-longer-than-asked", response, 0, Local(StepKind::kRead, 16));
  response[0] = 0x81;
  seeds.AddRaw("cve-2026-64268-read-response-runs-on", response, 0, Local(StepKind::kRead, 16));
  response[0] = 0xC1;
  response[13] = 8;
  response.resize(14 + 8);
  seeds.AddRaw("read-response-with-a-gap", response, 0, Local(StepKind::kRead, 16));
  response[0] = 0x81;
  response[13] = 0;
  response.resize(14 + 16);
  seeds.AddRaw("read-response-without-its-last-flag", response, 0, Local(StepKind::kRead, 16));
  seeds.Add("read-response-unasked", {Segment(kResponseOp, Target::kWritable, 8)});
  seeds.Add("read-response-to-memory-of-its-choice",
            {Local(StepKind::kRead, 16), Segment(kResponseOp, Target::kWritable, 16)});
  seeds.Add("read-response-twice", {Local(StepKind::kRead, 16),
                                    {StepKind::kAnswer},
                                    {StepKind::kAnswer},
                                    Segment(kResponseOp, Target::kZero, 16)});
  seeds.Add("more-reads-than-agreed",
            {Segment(kReadOp, Target::kReadable, 9, kLastSegment | kMoreFollows),
             Segment(kReadOp, Target::kReadable, 9, kLastSegment | kMoreFollows | kOddMsn, 0, 0, 1),
             Segment(kReadOp, Target::kReadable, 9, kLastSegment | kOddMsn, 0, 0, 2)},
            0, 1);
  seeds.Add("read-with-limit-zero", {Segment(kReadOp, Target::kReadable, 8)}, 0, 0);
  seeds.Add("read-what-is-only-written", {Segment(kReadOp, Target::kWritable, 8)});
  seeds.Add("write-what-is-only-read", {Segment(kWriteOp, Target::kReadable, 8)});
  seeds.Add("write-behind-the-end", {Segment(kWriteOp, Target::kPart, 17, kLastSegment, kFromEnd, -16)});
  seeds.Add("write-before-the-start", {Segment(kWriteOp, Target::kPart, 8, kLastSegment, 0, -1)});
  seeds.Add("write-wraps", {Segment(kWriteOp, Target::kWritable, 8, kLastSegment, kNearWrap, 3)});
  seeds.Add("read-wraps", {Segment(kReadOp, Target::kReadable, 8, kLastSegment, kNearWrap, 3)});
  seeds.Add("zero-length-write-is-checked", {Segment(kWriteOp, Target::kNobody, 0)});
  seeds.Add("zero-length-write-behind-the-end",
            {Segment(kWriteOp, Target::kPart, 0, kLastSegment, kFromEnd, 1)});
  seeds.Add("window-of-another-connection", {Segment(kWriteOp, Target::kOtherWindow, 8)});
  seeds.Add("read-window-of-another-connection", {Segment(kReadOp, Target::kOtherWindow, 8)});
  seeds.Add("invalidate-a-region",
            {Local(StepKind::kReceive, 50), Segment(kSendInvalidateOp, Target::kWritable, 8)});
  seeds.Add("invalidate-anothers-window",
            {Local(StepKind::kReceive, 50), Segment(kSendInvalidateOp, Target::kOtherWindow, 8)});
  seeds.Add("invalidate-what-is-being-read",
            {{StepKind::kBind},
             Local(StepKind::kReceive, 50),
             Segment(kReadOp, Target::kOwnWindow, 200, kLastSegment | kMoreFollows),
             Segment(kSendInvalidateOp, Target::kOwnWindow, 8)});
  seeds.Add("send-without-a-receive", {Segment(kSendOp, Target::kZero, 8)});
  seeds.Add("send-without-a-receive-behind-a-read",
            {Segment(kReadOp, Target::kReadable, 200, kLastSegment | kMoreFollows),
             Segment(kSendOp, Target::kZero, 8)});
  seeds.Add("receive-into-forbidden-memory",
            {Local(StepKind::kReceive, 9, 2), Segment(kSendOp, Target::kZero, 3)});
  seeds.Add("send-too-long", {Local(StepKind::kReceive, 9), Segment(kSendOp, Target::kZero, 10)});
  seeds.Add("send-too-long-in-its-second-piece",
            {Local(StepKind::kReceive, 9), Segment(kSendOp, Target::kZero, 9, 0),
             Segment(kSendOp, Target::kZero, 1)});
  seeds.Add("msn-gap", {Local(StepKind::kReceive, 9),
                        Segment(kSendOp, Target::kZero, 1, kLastSegment | kOddMsn, 0, 0, 1)});
  seeds.Add("msn-again", {Local(StepKind::kReceive, 9), Segment(kSendOp, Target::kZero, 1),
                          Segment(kSendOp, Target::kZero, 1, kLastSegment | kOddMsn, 0, 0, -1)});
  seeds.Add("offset-gap", {Local(StepKind::kReceive, 90), Segment(kSendOp, Target::kZero, 5, 0),
                           Segment(kSendOp, Target::kZero, 5, kLastSegment | kOddOffset, 0, 0, 1)});
  seeds.Add("crc-wrong", {Segment(kWriteOp, Target::kWritable, 40, kLastSegment | kSpoiled)});
  seeds.Add("interleaved-with-a-write",
            {Local(StepKind::kReceive, 90), Segment(kSendOp, Target::kZero, 5, 0),
             Segment(kWriteOp, Target::kWritable, 5), Segment(kSendOp, Target::kZero, 5)});
  seeds.Add("count-of-more-than-was-sent",
            {Segment(kWriteOp, Target::kZero, 0, kLastSegment, kSmallOffset, 1)});
  seeds.Add("terminate-of-a-send", {Local(StepKind::kSend, 7), {StepKind::kTerminate, 2, 0, 1, 1, 2, 2}});
  seeds.Add("terminate-mirrored", {Local(StepKind::kSend, 7), {StepKind::kTerminate, 3, 0, 1, 1, 2, 2}});
  seeds.Add("terminate-of-a-write", {Local(StepKind::kWrite, 7), {StepKind::kTerminate, 2, 3, 1, 1, 1, 0}});
  seeds.Add("terminate-of-a-read", {Local(StepKind::kRead, 7), {StepKind::kTerminate, 2, 1, 1, 0, 1, 1}});
  seeds.Add("terminate-of-nothing", {{StepKind::kTerminate, 2, 2, 200, 0, 2, 7}});
  constexpr unsigned kHigh = kHighOpcode;
  seeds.Add("immediate",
            {Local(StepKind::kReceive, 0), Segment(0, Target::kZero, 8, kLastSegment, kHigh),
             Segment(1, Target::kZero, 8, kLastSegment | kMoreFollows, kHigh)},
            kExtended);
  seeds.Add("send-with-immediate",
            {Local(StepKind::kReceive, 64), Segment(4, Target::kZero, 9, kLastSegment, kHigh)}, kExtended);
  seeds.Add("fetch-add", {Segment(2, Target::kWritable, 1, kLastSegment, kHigh)}, kExtended);
  seeds.Add("compare-swap", {Segment(2, Target::kWritable, 0x201, kLastSegment, kHigh)}, kExtended);
  seeds.Add("fetch-add-of-read-only-memory", {Segment(2, Target::kReadable, 1, kLastSegment, kHigh)},
            kExtended);
  seeds.Add("atomic-answered",
            {Local(StepKind::kRead, 8, 64), Segment(3, Target::kZero, 1, kLastSegment, kHigh)}, kExtended);
  seeds.Add("posts-with-immediate",
            {Local(StepKind::kSend, 8, 64), Local(StepKind::kWrite, 300, 64), Local(StepKind::kWrite, 0, 64)},
            kExtended);
  seeds.Add("terminate-too-short", {Segment(kTerminateOp, Target::kZero, 3)});
  seeds.Add("cut-off-inside-a-frame", {{StepKind::kBytes, 3, 0, 0}, {StepKind::kHangUp}});
}

void AddRing(SeedWriter& writer) {
  using provider::soft::EndCode;
  using provider::soft::RecordKind;
  const auto add = [&](std::string_view name, std::initializer_list<RingStepBytes> steps,
                       unsigned flags = kShareMemory, unsigned reads = kFour) {
    Seed seed;
    seed.U8((flags & 0xFF) | reads << kRingInboundShift | reads << kRingOutboundShift).U8(flags >> 8);
    for (const RingStepBytes& step : steps) seed.Raw(step);
    writer.Add("ring", name, seed);
  };
  const auto publish = [](RecordKind kind, unsigned flags, Named named = Named::kZero, unsigned length = 0,
                          unsigned f = 0, unsigned g = 0) {
    return RingStepBytes{RingStep::kPublish,
                         static_cast<std::uint8_t>(kind),
                         static_cast<std::uint8_t>(flags),
                         static_cast<std::uint8_t>(named),
                         static_cast<std::uint8_t>(length),
                         static_cast<std::uint8_t>(length >> 8),
                         static_cast<std::uint8_t>(f),
                         static_cast<std::uint8_t>(g)};
  };
  const auto local = [](RingStep kind, unsigned length, unsigned c = 0, Named named = Named::kWritable) {
    return RingStepBytes{kind, static_cast<std::uint8_t>(length), static_cast<std::uint8_t>(length >> 8),
                         static_cast<std::uint8_t>(c), static_cast<std::uint8_t>(named)};
  };
  const RingStepBytes look{RingStep::kLook}, consumed{RingStep::kConsumed};
  using namespace provider::soft;
  add("receive-inline", {local(RingStep::kReceive, 50),
                         publish(RecordKind::kSend, kLastPiece | kInlineBytes, Named::kZero, 20), look});
  add("receive-pieces", {local(RingStep::kReceive, 4000), publish(RecordKind::kSend, 0, Named::kZero, 2000),
                         publish(RecordKind::kSend, kLastPiece | kSolicited, Named::kZero, 1000), look});
  add("write", {publish(RecordKind::kWrite, kLastPiece, Named::kWritable, 4000), look,
                publish(RecordKind::kWrite, kLastPiece, Named::kPart, 1000), look});
  add("read", {publish(RecordKind::kReadRequest, 0, Named::kReadable, 4096), look, consumed, look});
  add("our-requests",
      {local(RingStep::kSend, 20, 1), local(RingStep::kSend, 3000), local(RingStep::kWrite, 100),
       local(RingStep::kRead, 100, 0, Named::kReadable), look, consumed, look,
       publish(RecordKind::kReadResponse, kLastPiece, Named::kWritable, 100), look});
  add("our-long-send", {local(RingStep::kSend, 16000, 16), look, consumed, look});
  add("window", {{RingStep::kWindow, 1},
                 look,
                 publish(RecordKind::kWrite, kLastPiece, Named::kOwnWindow, 500),
                 look,
                 {RingStep::kWindow, 0},
                 look,
                 publish(RecordKind::kWrite, kLastPiece, Named::kOwnWindow, 500),
                 look});
  add("by-reference", {{RingStep::kDescriptor, 1, 2, 7},
                       publish(RecordKind::kDescriptors, 0),
                       local(RingStep::kReceive, 500),
                       publish(RecordKind::kSend, kLastPiece | kByReference, static_cast<Named>(7), 300),
                       look});
  add("direct", {{RingStep::kDescriptor, 0, 1},
                 {RingStep::kDescriptor, 1, 2, 7},
                 publish(RecordKind::kDescriptors, 0),
                 look,
                 {RingStep::kTableEntry, 0, 0x0F, 7, 0, 0, 0, 200},
                 local(RingStep::kWrite, 1000),
                 look,
                 local(RingStep::kRead, 1000),
                 look});
  add("goodbye", {local(RingStep::kSend, 20), publish(RecordKind::kGoodbye, 0), look, consumed, look});
  add("goodbye-of-ours", {{RingStep::kDisconnect, 1}, look, publish(RecordKind::kGoodbye, 0), look});
  add("hang-up", {local(RingStep::kSend, 20), {RingStep::kHangUp}});
  for (unsigned code = 1; code <= 6; ++code) {
    add("end-code-" + std::to_string(code),
        {local(RingStep::kSend, 20), look, {RingStep::kControl, 3, static_cast<std::uint8_t>(code)}, look});
  }
  // Hostile values, docs/wire.md.
  add("consumed-runs-ahead", {local(RingStep::kSend, 20), look, {RingStep::kConsumed, 1}, look});
  add("consumed-jumps-back",
      {local(RingStep::kSend, 20), look, consumed, look, {RingStep::kControl, 0, 0}, look});
  add("consumed-far-away", {{RingStep::kControl, 0, 0, 0, 0, 0x80}, look});
  add("unknown-kind", {publish(static_cast<RecordKind>(0), 0), look});
  add("piece-too-long", {local(RingStep::kReceive, 100),
                         publish(RecordKind::kSend, kInlineBytes | kLastPiece, Named::kZero, 33), look});
  add("length-of-two-gigabytes",
      {local(RingStep::kReceive, 100), publish(RecordKind::kSend, kLastPiece, Named::kZero, 1, 0x80), look});
  add("reference-outside-its-buffer",
      {{RingStep::kDescriptor, 1, 2, 7},
       publish(RecordKind::kDescriptors, 0),
       local(RingStep::kReceive, 500),
       publish(RecordKind::kSend, kLastPiece | kByReference, static_cast<Named>(7), 300, 0x40),
       look});
  add("reference-runs-out-of-its-buffer",
      {{RingStep::kDescriptor, 1, 2, 7},
       publish(RecordKind::kDescriptors, 0),
       local(RingStep::kReceive, 500),
       publish(RecordKind::kSend, kLastPiece | kByReference, static_cast<Named>(7), 300, 0, 63),
       look});
  add("reference-to-no-buffer",
      {local(RingStep::kReceive, 500),
       publish(RecordKind::kSend, kLastPiece | kByReference, static_cast<Named>(9), 3), look});
  add("write-by-reference",
      {publish(RecordKind::kWrite, kLastPiece | kByReference, Named::kWritable, 3), look});
  add("write-behind-the-end", {publish(RecordKind::kWrite, kLastPiece, Named::kPart, 1001), look});
  add("write-wraps", {publish(RecordKind::kWrite, kLastPiece, Named::kWritable, 100, 3), look});
  add("write-what-is-only-read", {publish(RecordKind::kWrite, kLastPiece, Named::kReadable, 4), look});
  add("window-of-another-connection", {publish(RecordKind::kWrite, kLastPiece, Named::kNobody, 4), look});
  add("read-beyond-the-limit",
      {publish(RecordKind::kReadRequest, 0, Named::kReadable, 1),
       publish(RecordKind::kReadRequest, 0, Named::kReadable, 1), look},
      kShareMemory, 1);
  add("response-unasked", {publish(RecordKind::kReadResponse, kLastPiece, Named::kZero, 8), look});
  add("response-longer-than-asked",
      {local(RingStep::kRead, 8, 0, Named::kReadable), look,
       publish(RecordKind::kReadResponse, kLastPiece, Named::kWritable, 9), look});
  add("invalidate-a-region",
      {local(RingStep::kReceive, 50),
       publish(RecordKind::kSend, kLastPiece | kInvalidates, Named::kWritable, 3), look});
  add("send-without-a-receive", {publish(RecordKind::kSend, kLastPiece, Named::kZero, 3), look});
  add("send-too-long",
      {local(RingStep::kReceive, 2), publish(RecordKind::kSend, kLastPiece, Named::kZero, 3), look});
  add("abandoned-send",
      {local(RingStep::kReceive, 90), publish(RecordKind::kSend, 0, Named::kZero, 30),
       publish(RecordKind::kAbandonSend, 0), publish(RecordKind::kSend, kLastPiece, Named::kZero, 80), look});
  add("stamp-of-a-later-round", {{RingStep::kStrayRecord, 1, kLastPiece, 7, 3, 0, 1, 0}, look});
  add("receive-into-forbidden-memory",
      {local(RingStep::kReceive, 50, 32), publish(RecordKind::kSend, kLastPiece, Named::kZero, 3), look});
  add("bells",
      {{RingStep::kBell, 1}, {RingStep::kBell, 0}, {RingStep::kBell, 16}, {RingStep::kBell, 63}, look});
  add("descriptors-that-will-not-do", {{RingStep::kDescriptor, 2, 1},
                                       {RingStep::kDescriptor, 3, 2, 1},
                                       {RingStep::kDescriptor, 4, 2, 2},
                                       {RingStep::kDescriptor, 1, 2, 3, 1},
                                       {RingStep::kDescriptor, 0, 9},
                                       publish(RecordKind::kDescriptors, 0),
                                       look});
  add("table-entry-outside-the-buffer", {{RingStep::kDescriptor, 0, 1},
                                         {RingStep::kDescriptor, 1, 2, 7},
                                         publish(RecordKind::kDescriptors, 0),
                                         look,
                                         {RingStep::kTableEntry, 0, 0x0F, 7, 0, 3, 0xC0, 200},
                                         local(RingStep::kWrite, 1000),
                                         look});
  add("held-then-received",
      {publish(RecordKind::kSend, kLastPiece, Named::kZero, 3), look, local(RingStep::kReceive, 9), look},
      kShareMemory | kPatientRing | kPeerIsActive);
  constexpr unsigned kExtendedRing = kShareMemory | kRingExtensions;
  using provider::soft::kHasImmediate;
  using provider::soft::kInlineBytes;
  add("immediate", {local(RingStep::kReceive, 8), publish(RecordKind::kImmediate, 0, Named::kZero, 8), look},
      kExtendedRing);
  add("immediate-held",
      {publish(RecordKind::kImmediate, 0, Named::kZero, 8), look, local(RingStep::kReceive, 8), look},
      kExtendedRing | kPatientRing);
  add("send-with-immediate",
      {local(RingStep::kReceive, 64),
       publish(RecordKind::kSend, kLastPiece | kInlineBytes | kHasImmediate, Named::kWritable, 9), look},
      kExtendedRing);
  add("fetch-add", {publish(RecordKind::kFetchAdd, 0, Named::kWritable, 8), look}, kExtendedRing);
  add("compare-swap", {publish(RecordKind::kCompareSwap, 0, Named::kBuffer, 8), look}, kExtendedRing);
  add("fetch-add-of-read-only-memory", {publish(RecordKind::kFetchAdd, 0, Named::kReadable, 8), look},
      kExtendedRing);
  add("posts-of-the-extensions",
      {local(RingStep::kSend, 8, 64),
       local(RingStep::kWrite, 300, 64),
       local(RingStep::kWrite, 0, 64 | 16),
       local(RingStep::kRead, 8, 64),
       local(RingStep::kRead, 8, 64 | 128),
       {RingStep::kConsumed},
       look},
      kExtendedRing);
  add("flush", {local(RingStep::kReceive, 90),
                publish(RecordKind::kSend, 0, Named::kZero, 30),
                look,
                local(RingStep::kSend, 4000),
                {RingStep::kFlush},
                publish(RecordKind::kSend, kLastPiece, Named::kZero, 30),
                look});
}

}  // namespace

void AddRdmapSeeds(SeedWriter& writer) {
  RdmapSeeds seeds(writer);
  AddGoodTraffic(seeds);
  AddBadTraffic(seeds);
}

void AddRingSeeds(SeedWriter& writer) {
  AddRing(writer);
}

}  // namespace nd::fuzz
