// SPDX-License-Identifier: Apache-2.0
// A hostile peer of a whole iWARP connection: the verdict on every segment equals that of the model, in any
// order, and no byte outside the granted memory changes.
//
// Input: rdmap_script.h.
#include <sys/socket.h>

#include <deque>

#include "provider/soft/transports.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"
#include "provider/soft/wire/terminate.h"
#include "tests/fuzz/qp_rig.h"
#include "tests/fuzz/rdmap_model.h"
#include "tests/fuzz/rdmap_script.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;
using Bytes = std::vector<std::uint8_t>;

constexpr std::uint32_t kReadLimits[] = {0, 1, 4, 16};

void PutBig(Bytes* to, std::uint64_t value, unsigned bytes) {
  for (unsigned i = bytes; i-- > 0;) to->push_back(static_cast<std::uint8_t>(value >> (8 * i)));
}

class Connection {
 public:
  Connection(QpRig& rig, unsigned flags)
      : rig_(rig),
        own_peer_((flags & kForeignPeer) == 0),
        crc_((flags & kNoCrc) == 0),
        extensions_((flags & kExtended) != 0),
        outbound_(kReadLimits[(flags >> kOutboundShift) & 3]),
        inbound_(kReadLimits[(flags >> kInboundShift) & 3]),
        model_(rig.arena, inbound_, own_peer_, crc_, (flags & kPatient) != 0),
        end_(rig),
        attached_((flags & kBeforeAttach) == 0) {
    rig.arena.Reset();
    const auto grant = [&](std::size_t page, std::size_t start, std::size_t length, std::uint32_t access) {
      model_.memory.push_back({rig.regions[page]->remote_token(), access, rig.Address(page, start), length});
    };
    grant(kWritablePage, 0, Arena::kPage, kAllowRemoteWrite);
    grant(kReadablePage, 0, Arena::kPage, kAllowRemoteRead);
    grant(kPartPage, kPartStart, kPartLength, kAllowRemoteRead | kAllowRemoteWrite);
    grant(kLocalPage, 0, Arena::kPage, kAllowLocalWrite);
    grant(kWindowPage, 0, Arena::kPage, kAllowLocalWrite);
    grant(kSourcePage, 0, Arena::kPage, 0);
    model_.memory.push_back({rig.other_window->remote_token(), kAllowRemoteRead | kAllowRemoteWrite,
                             rig.Address(kWindowPage, kOtherWindowStart), kWindowLength, true});
    window_ = rig.device->CreateWindow().value();
    int ends[2];
    Require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0,
            "a pair of sockets");
    peer_ = UniqueFd(ends[1]);
    hand_off_.record = provider::soft::IwarpRecord();
    hand_off_.record.flags = (crc_ ? provider::kHandOffCrc : 0u) |
                             (own_peer_ ? provider::kHandOffConfirm : 0u) |
                             (extensions_ ? provider::kHandOffExtensions : 0u);
    if (extensions_) exact_ = false;
    hand_off_.record.read_inbound = inbound_;
    hand_off_.record.read_outbound = outbound_;
    hand_off_.fds.emplace_back(ends[0]);
    if (attached_) Attach();
  }
  ~Connection() {
    if (!attached_) Look();
    end_.Finish();
    window_.reset();
  }

  void Run(const Step& step, Input* rest);

 private:
  void Attach() {
    attached_ = true;
    Require(end_.qp().Attach(std::move(hand_off_)).ok(), "a good hand-over is adopted");
  }
  void Segment(const Step& step);
  void Answer(unsigned pieces);
  void Terminate(const Step& step);
  void PostReceive(const Step& step);
  void PostRequest(const Step& step);
  void Frame(Bytes ulpdu, bool good);
  void Look();
  void Compare();
  void CheckMessages();
  void HearSegment(std::span<const std::uint8_t> ulpdu);
  std::uint32_t StagOf(Target target) const;
  std::uint64_t OffsetOf(const Step& step) const;

  QpRig& rig_;
  const bool own_peer_, crc_, extensions_;
  const std::uint32_t outbound_, inbound_;
  RdmapModel model_;
  QpUnderTest end_;
  std::shared_ptr<provider::MemoryWindow> window_;
  provider::HandOff hand_off_;
  UniqueFd peer_;
  bool attached_;
  bool exact_ = true;  // True while the model predicts every event.
  Bytes wire_, heard_;
  std::deque<std::vector<RdmapModel::Piece>>
      sinks_;  // Of Reads that were posted and not yet seen on the wire.
  std::vector<RdmapModel::Answer> unanswered_;
  std::uint32_t answered_ = 0;  // The answered bytes of the first of them.
  std::optional<wire::Fault> reported_fault_;
  bool any_words_ = false;
  std::vector<Completion> receives_;
};

std::uint32_t Connection::StagOf(Target target) const {
  switch (target) {
    case Target::kWritable:
      return rig_.regions[kWritablePage]->remote_token();
    case Target::kReadable:
      return rig_.regions[kReadablePage]->remote_token();
    case Target::kPart:
      return rig_.regions[kPartPage]->remote_token();
    case Target::kLocal:
      return rig_.regions[kLocalPage]->remote_token();
    case Target::kOwnWindow:
      return window_->remote_token();
    case Target::kOtherWindow:
      return rig_.other_window->remote_token();
    case Target::kNobody:
      return rig_.regions[kWritablePage]->remote_token() ^ 1;
    case Target::kZero:
      break;
  }
  return 0;
}

std::uint64_t Connection::OffsetOf(const Step& step) const {
  const auto delta = static_cast<std::int16_t>(step.c | step.d << 8);
  std::uint64_t base = 0, length = 0;
  for (const auto& memory : model_.memory) {
    if (memory.stag == StagOf(static_cast<Target>(step.b & 7))) {
      base = memory.base;
      length = memory.length;
    }
  }
  switch (step.b & 0x18) {
    case kFromEnd:
      return base + length + static_cast<std::uint64_t>(delta);
    case kSmallOffset:
      return static_cast<std::uint16_t>(delta);
    case kNearWrap:
      return ~std::uint64_t{0} - static_cast<std::uint16_t>(delta);
    default:
      return base + static_cast<std::uint64_t>(delta);
  }
}

void Connection::Frame(Bytes ulpdu, bool good) {
  Bytes frame;
  PutBig(&frame, ulpdu.size(), 2);
  frame.insert(frame.end(), ulpdu.begin(), ulpdu.end());
  frame.resize((frame.size() + 3) / 4 * 4);
  const std::uint32_t crc = PlainCrc32c(frame) ^ (good ? 0u : 1u);
  for (unsigned i = 0; i < 4; ++i) frame.push_back(static_cast<std::uint8_t>(crc >> (8 * i)));
  wire_.insert(wire_.end(), frame.begin(), frame.end());
  model_.Arrive(std::move(ulpdu), good);
}

void Connection::Segment(const Step& step) {
  const bool high = extensions_ && (step.b & kHighOpcode) != 0;
  const unsigned opcode = (step.a & 7u) | (high ? 8u : 0u);
  const std::size_t length = (step.e | step.f << 8) % 6000;
  const bool tagged = opcode == 0 || opcode == 2;
  Bytes ulpdu = {
      static_cast<std::uint8_t>((tagged ? 0x80 : 0) | ((step.a & kLastSegment) != 0 ? 0x40 : 0) | 1),
      static_cast<std::uint8_t>(0x40 | opcode)};
  // NOLINTNEXTLINE(bugprone-signed-char-misuse,cert-str34-c): a number that may be negative.
  const auto odd = static_cast<std::uint32_t>(static_cast<std::int8_t>(step.g));
  if (tagged) {
    PutBig(&ulpdu, StagOf(static_cast<Target>(step.b & 7)), 4);
    PutBig(&ulpdu, OffsetOf(step), 8);
  } else {
    PutBig(&ulpdu, StagOf(static_cast<Target>(step.b & 7)), 4);
    const bool asks = opcode == 1 || opcode == 10;
    PutBig(&ulpdu, asks ? 1u : opcode == 7 ? 2u : opcode == 11 ? 3u : 0u, 4);
    const std::uint32_t msn = high          ? (step.a & kMoreFollows ? 2u : 1u)
                              : asks        ? model_.read_msn()
                              : opcode == 7 ? 1u
                                            : model_.send_msn();
    // The number of a frame behind others is not known in advance, so it counts on from them.
    PutBig(&ulpdu, msn + ((step.a & kOddMsn) != 0 ? odd : 0), 4);
    const bool send = opcode >= 3 && opcode <= 6;
    PutBig(&ulpdu, (send ? model_.message_offset() : 0) + ((step.a & kOddOffset) != 0 ? odd : 0), 4);
  }
  if (opcode == 10) {
    PutBig(&ulpdu, step.f & 3, 4);
    PutBig(&ulpdu, step.g, 4);
    PutBig(&ulpdu, StagOf(static_cast<Target>(step.b & 7)), 4);
    PutBig(&ulpdu, OffsetOf(step), 8);
    PutBig(&ulpdu, step.e, 8);
    PutBig(&ulpdu, (step.f & 2) != 0 ? ~std::uint64_t{0} : 0, 8);
    PutBig(&ulpdu, step.g, 8);
    PutBig(&ulpdu, ~std::uint64_t{0}, 8);
  } else if (opcode == 8 || opcode == 9) {
    PutBig(&ulpdu, step.g, 4);
    PutBig(&ulpdu, length, 4);
  } else if (opcode == 11) {
    PutBig(&ulpdu, model_.asked.empty() ? step.g : model_.asked.front().stag, 4);
    PutBig(&ulpdu, step.g, 8);
  } else if (opcode == 1) {
    PutBig(&ulpdu, 0x51A6, 4);
    PutBig(&ulpdu, (step.b & 0x18) == kNearWrap ? ~std::uint64_t{0} - step.c : 16, 8);
    PutBig(&ulpdu, length, 4);
    PutBig(&ulpdu, StagOf(static_cast<Target>(step.b & 7)), 4);
    PutBig(&ulpdu, OffsetOf(step), 8);
  } else {
    for (std::size_t i = 0; i < length; ++i) ulpdu.push_back(static_cast<std::uint8_t>(step.g + i * 3));
  }
  Frame(std::move(ulpdu), (step.a & kSpoiled) == 0);
}

void Connection::Answer(unsigned pieces) {
  if (model_.asked.empty()) return;
  const RdmapModel::Asked read = model_.asked.front();
  const std::uint32_t step = std::max<std::uint32_t>((read.size - read.done) / (pieces % 4 + 1) + 1, 1);
  std::uint32_t done = read.done;
  do {
    const std::uint32_t length = std::min(step, read.size - done);
    Bytes ulpdu = {static_cast<std::uint8_t>(done + length == read.size ? 0xC1 : 0x81), 0x42};
    PutBig(&ulpdu, read.stag, 4);
    PutBig(&ulpdu, done, 8);
    for (std::uint32_t i = 0; i < length; ++i) ulpdu.push_back(static_cast<std::uint8_t>(done + i));
    done += length;
    Frame(std::move(ulpdu), true);
  } while (done != read.size);
}

void Connection::Terminate(const Step& step) {
  wire::Terminate words;
  words.fault = {static_cast<wire::Layer>(step.d & 0x0F), static_cast<std::uint8_t>(step.e & 0x0F), step.f};
  words.segment_length = 40;
  if ((step.a & 2) != 0) {
    wire::DdpHeader header;
    header.tagged = step.b == 3;
    header.queue = step.b;
    header.msn = step.c;
    header.stag = StagOf(Target::kNobody);
    header.ulp_control = 0x43;
    words.ddp_header = header;
  }
  std::array<std::byte, wire::kMaxTerminateSize> payload;
  const auto layout = (step.a & 1) != 0 ? wire::TerminateLayout::kSiw : wire::TerminateLayout::kRfc;
  const std::size_t size = wire::EncodeTerminate(words, layout, payload);
  Bytes ulpdu = {0x41, 0x47, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0};
  for (std::size_t i = 0; i < size; ++i) ulpdu.push_back(std::to_integer<std::uint8_t>(payload[i]));
  Frame(std::move(ulpdu), true);
}

void Connection::PostReceive(const Step& step) {
  const std::uint32_t length = (step.a | step.b << 8) % Arena::kPage;
  const std::uint32_t first = (step.c & 1) != 0 ? length / 3 : length;
  Sge sges[] = {rig_.At(kLocalPage, 0, first), rig_.At(kLocalPage, first + 1, length - first)};
  const std::size_t count = (step.c & 1) != 0 && length < Arena::kPage - 1 ? 2 : 1;
  if (count == 1) sges[0].length = length;
  const bool forbidden = (step.c & 2) != 0;
  if (forbidden) sges[0].local_token = sges[1].local_token = rig_.regions[kSourcePage]->local_token();
  void* tag = end_.NextReceive();
  const Status status = end_.qp().Receive(tag, std::span(sges, count));
  end_.Posted(status, true, false);
  if (!status.ok()) return;
  RdmapModel::Receive receive{reinterpret_cast<std::uintptr_t>(tag), {}, forbidden};
  for (std::size_t i = 0; i < count; ++i) {
    receive.pieces.push_back({reinterpret_cast<std::uintptr_t>(sges[i].address), sges[i].length});
  }
  if (model_.dead()) return;
  model_.Post(std::move(receive));
}

void Connection::PostRequest(const Step& step) {
  std::uint32_t length = (step.a | step.b << 8) % 4000;
  std::uint32_t flags = 0;
  if ((step.c & 2) != 0) flags |= kOpSilentSuccess;
  if ((step.c & 1) != 0 && step.kind != StepKind::kRead) {
    flags |= kOpInline;
    length %= 65;
  }
  const bool sink = step.kind == StepKind::kRead;
  Sge sge = rig_.At(sink ? kLocalPage : kSourcePage, 0, length);
  void* tag = end_.NextInitiator();
  Status status;
  if (extensions_ && (step.c & 64) != 0 && step.kind != StepKind::kRead) {
    status = step.kind == StepKind::kSend ? end_.qp().SendWithImmediate(tag, {&sge, 1}, 5, flags)
                                          : end_.qp().WriteWithImmediate(tag, {&sge, 1}, 0x1000, 9, 5, flags);
  } else if (extensions_ && (step.c & 64) != 0) {
    sge.length = 8;
    status = end_.qp().FetchAdd(tag, sge, 0x2000, 11, 1, flags);
  } else if (step.kind == StepKind::kSend) {
    if ((step.c & 4) != 0) flags |= kOpSendAndSolicit;
    status = (step.c & 8) != 0 ? end_.qp().SendAndInvalidate(tag, {&sge, 1}, flags, 7)
                               : end_.qp().Send(tag, {&sge, 1}, flags);
  } else if (step.kind == StepKind::kWrite) {
    status = end_.qp().Write(tag, {&sge, 1}, 0x1000, (step.c & 16) != 0 ? 0 : 9, flags);
  } else {
    status = end_.qp().Read(tag, {&sge, 1}, 0x2000, 11, flags);
    if (status.ok()) sinks_.push_back({{reinterpret_cast<std::uintptr_t>(sge.address), length}});
  }
  end_.Posted(status, false, (flags & kOpSilentSuccess) != 0);
}

void Connection::Look() {
  if (!wire_.empty()) {
    // After the end of the connection neither side reads.
    [[maybe_unused]] const auto sent =
        send(peer_.get(), wire_.data(), wire_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    wire_.clear();
  }
  if (!attached_) Attach();
  if (exact_) model_.Look();
  for (int idle = 0; idle < 3;) {
    idle = end_.Poll(&receives_) == 0 ? idle + 1 : 0;
    const std::size_t before = heard_.size();
    std::uint8_t buffer[16384];
    const ssize_t got = recv(peer_.get(), buffer, sizeof buffer, MSG_DONTWAIT);
    if (got > 0) heard_.insert(heard_.end(), buffer, buffer + got);
    if (heard_.size() != before) idle = 0;
    if (exact_) unanswered_.insert(unanswered_.end(), model_.answers.begin(), model_.answers.end());
    model_.answers.clear();
    CheckMessages();
  }
  Compare();
}

// The messages of the queue pair must be well-formed regardless of the peer.
void Connection::CheckMessages() {
  std::span<const std::uint8_t> rest(heard_);
  for (;;) {
    if (rest.size() < 2) break;
    const std::size_t ulpdu = rest[0] * 256u + rest[1];
    const std::size_t covered = (2 + ulpdu + 3) / 4 * 4;
    if (rest.size() < covered + 4) break;
    const std::uint32_t crc = crc_ ? PlainCrc32c(rest.first(covered)) : 0;
    for (unsigned i = 0; i < 4; ++i) {
      Require(rest[covered + i] == ((crc >> (8 * i)) & 0xFF), "what is sent has the agreed CRC");
    }
    HearSegment(rest.subspan(2, ulpdu));
    rest = rest.subspan(covered + 4);
  }
  heard_.erase(heard_.begin(), heard_.end() - static_cast<std::ptrdiff_t>(rest.size()));
}

void Connection::HearSegment(std::span<const std::uint8_t> ulpdu) {
  Header header;
  if (extensions_ && ulpdu.size() > 1 && (ulpdu[1] & 0x0F) > 7) {
    wire::Segment segment;
    Require(!wire::DecodeSegment(std::as_bytes(ulpdu), &segment, true), "an extension is well-formed");
    if (segment.opcode != wire::Opcode::kAtomicRequest) return;
    RdmapModel::Asked asked;
    asked.stag = wire::DecodeAtomicRequest(segment.payload)->id;
    model_.asked.push_back(asked);
    return;
  }
  Require(!JudgeSegment(ulpdu, &header), "what is sent is well-formed");
  const auto payload = ulpdu.subspan(header.size);
  Require(!any_words_, "nothing follows a Terminate");
  if (header.opcode == 7) {
    any_words_ = true;
    const auto words = wire::DecodeTerminate(std::as_bytes(payload), wire::TerminateLayout::kRfc);
    Require(words.has_value(), "a Terminate says something");
    reported_fault_ = words->fault;
  } else if (header.opcode == 1) {
    RdmapModel::Asked asked;
    const auto at = [&](std::size_t i) { return static_cast<std::uint32_t>(payload[i]); };
    asked.stag = at(0) << 24 | at(1) << 16 | at(2) << 8 | at(3);
    asked.size = at(12) << 24 | at(13) << 16 | at(14) << 8 | at(15);
    if (asked.stag != 0) {
      Require(!sinks_.empty(), "a Read is asked for once");
      asked.sink = sinks_.front();
      sinks_.pop_front();
    }
    model_.asked.push_back(asked);
    Require(!exact_ || model_.asked.size() <= outbound_, "no more Reads fly than were agreed");
  } else if (header.opcode == 2) {
    if (!exact_) return;
    Require(!unanswered_.empty(), "nothing is answered that was not asked");
    const RdmapModel::Answer& answer = unanswered_.front();
    Require(header.stag == answer.stag && header.offset == answer.offset + answered_ &&
                payload.size() <= answer.size - answered_,
            "a response goes where it was wanted");
    if (!payload.empty()) {
      const std::uint8_t* memory = rig_.arena.Expected(answer.source + answered_);
      Require(std::memcmp(payload.data(), memory, payload.size()) == 0, "a response is the memory");
    }
    answered_ += static_cast<std::uint32_t>(payload.size());
    Require(header.last == (answered_ == answer.size), "a response ends where it should");
    if (!header.last) return;
    answered_ = 0;
    unanswered_.erase(unanswered_.begin());
  } else if (header.last && !(header.opcode == 0 && payload.empty() && header.stag == 0)) {
    ++model_.messages_sent;
  }
}

void Connection::Compare() {
  if (!exact_) {
    // The pages without any write permission.
    return Require(rig_.arena.Same(kReadablePage, 1) && rig_.arena.Same(kSourcePage, 1),
                   "nobody writes here");
  }
  rig_.arena.Check();
  for (const Completion& completion : receives_) {
    Require(!model_.received.empty(), "a receive completes when something came for it");
    const RdmapModel::Received& expected = model_.received.front();
    Require(reinterpret_cast<std::uintptr_t>(completion.request_context) == expected.tag &&
                completion.status == expected.status && completion.bytes_transferred == expected.bytes,
            "a receive completes as the model says");
    model_.received.pop_front();
  }
  receives_.clear();
  Require(model_.received.empty(), "what came is completed");
  Require((end_.closed() == 1) == model_.dead(), "the connection lives as long as the model");
  Require(reported_fault_ == model_.fault(), "the Terminate message is that of the model");
  if (model_.dead()) exact_ = false;
  Require(!exact_ || unanswered_.empty(), "every Read is answered");
}

void Connection::Run(const Step& step, Input* rest) {
  switch (step.kind) {
    case StepKind::kSegment:
      Segment(step);
      if ((step.a & kMoreFollows) != 0 && wire_.size() < 32768) return;
      break;
    case StepKind::kRaw: {
      const auto raw = rest->Take(step.a);
      Frame({raw.begin(), raw.end()}, true);
      break;
    }
    case StepKind::kBytes: {
      // The model does not read streams.
      Look();
      exact_ = false;
      const auto raw = rest->Take(step.a);
      wire_.insert(wire_.end(), raw.begin(), raw.end());
      break;
    }
    case StepKind::kAnswer:
      Answer(step.a);
      break;
    case StepKind::kTerminate:
      Terminate(step);
      break;
    case StepKind::kHangUp:
      Look();
      exact_ = false;
      shutdown(peer_.get(), (step.a & 1) != 0 ? SHUT_RDWR : SHUT_WR);
      break;
    case StepKind::kReceive:
      if (!wire_.empty()) Look();
      PostReceive(step);
      break;
    case StepKind::kSend:
    case StepKind::kWrite:
    case StepKind::kRead:
      if (!attached_ || !wire_.empty()) Look();
      PostRequest(step);
      break;
    case StepKind::kBind: {
      if (!attached_ || !wire_.empty()) Look();
      const Status bound = end_.qp().BindWindow(end_.NextInitiator(), *rig_.regions[kWindowPage], *window_,
                                                rig_.arena.page(kWindowPage) + kWindowStart, kWindowLength,
                                                kOpAllowRead | kOpAllowWrite);
      end_.Posted(bound, false, false);
      // The window is open from now on; the previous one is closed when its request is processed.
      if (bound.ok()) exact_ = exact_ && model_.asked.empty() && !model_.held();
      std::erase_if(model_.memory, [](const auto& memory) { return memory.own_window; });
      if (bound.ok()) {
        model_.memory.push_back({window_->remote_token(), kAllowRemoteRead | kAllowRemoteWrite,
                                 rig_.Address(kWindowPage, kWindowStart), kWindowLength, false, true});
      }
      break;
    }
    case StepKind::kInvalidate: {
      if (!attached_ || !wire_.empty()) Look();
      const Status status = end_.qp().Invalidate(end_.NextInitiator(), *window_, 0);
      end_.Posted(status, false, false);
      // As with Bind: processed after the earlier requests were answered.
      if (status.ok()) exact_ = exact_ && model_.asked.empty() && !model_.held();
      if (status.ok()) std::erase_if(model_.memory, [](const auto& memory) { return memory.own_window; });
      break;
    }
    case StepKind::kDisconnect:
      Look();
      exact_ = false;
      end_.qp().Disconnect((step.a & 1) != 0 ? Duration(std::chrono::hours(1)) : Duration::zero(),
                           [](const Status&) {});
      break;
    case StepKind::kFlush:
      Look();
      exact_ = false;
      Require(end_.qp().Flush().ok(), "a flush succeeds");
      break;
    default:
      return;
  }
  Look();
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  static QpRig hasty(false), patient(true);
  constexpr std::size_t kMostSteps = 64;
  Input input(data, size);
  const unsigned first = input.Number();
  const unsigned flags = first | (input.Number() & 1u) << 8;
  Connection connection((flags & kPatient) != 0 ? patient : hasty, flags);
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    Step step;
    const auto raw = input.Take(sizeof step);
    std::memcpy(&step, raw.data(), raw.size());
    if (step.kind != StepKind::kDisconnect && step.kind != StepKind::kFlush) {
      step.kind =
          static_cast<StepKind>(static_cast<unsigned>(step.kind) % static_cast<unsigned>(StepKind::kCount));
    }
    connection.Run(step, &input);
  }
  return 0;
}
