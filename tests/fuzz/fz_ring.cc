// SPDX-License-Identifier: Apache-2.0
// A hostile peer rewrites the shared segment between any two rounds: no memory outside the granted memory
// changes, every request completes once, and no call hangs.
//
// Input: ring_script.h.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <optional>

#include "provider/queue_pair_rules.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/token_table.h"
#include "provider/soft/transports.h"
#include "tests/fuzz/qp_rig.h"
#include "tests/fuzz/ring_script.h"

namespace nd::fuzz {
namespace {

using namespace provider::soft;

constexpr std::uint32_t kReadLimits[] = {0, 1, 4, 16};
constexpr std::uint32_t kBufferSize = 16384;

// The mappings of both ends and the descriptors for the peer; made once.
struct Shared {
  UniqueFd segment_fd, table_fd, buffer_fd, small_fd, unsealed_fd, plain_fd;
  Mapping segment, table, buffer;

  Shared() {
    segment_fd = CreateSealedMemfd("fuzz-segment", kSegmentSize).value();
    segment = Mapping::Map(segment_fd.get(), kSegmentSize, true).value();
    table_fd = CreateSealedMemfd("fuzz-table", kRegionTableSize).value();
    table = Mapping::Map(table_fd.get(), kRegionTableSize, true).value();
    buffer_fd = CreateSealedMemfd("fuzz-buffer", kBufferSize).value();
    buffer = Mapping::Map(buffer_fd.get(), kBufferSize, true).value();
    small_fd = CreateSealedMemfd("fuzz-small", 4096).value();
    unsealed_fd = UniqueFd(memfd_create("fuzz-unsealed", MFD_CLOEXEC));
    plain_fd = UniqueFd(open("/dev/null", O_RDWR | O_CLOEXEC));
    Require(unsealed_fd && plain_fd, "descriptors can be made");
  }
  Segment& layout() const { return *reinterpret_cast<Segment*>(segment.data()); }
};

class HostileRing {
 public:
  HostileRing(QpRig& rig, Shared& shared, provider::Buffer& buffer, std::uint32_t buffer_stag,
              std::uint32_t buffer_token, unsigned flags)
      : rig_(rig),
        shared_(shared),
        buffer_(buffer),
        buffer_stag_(buffer_stag),
        buffer_token_(buffer_token),
        peer_side_((flags & kPeerIsActive) != 0 ? 0 : 1),
        end_(rig) {
    rig.arena.Reset();
    std::memset(shared.segment.data(), 0, kSegmentSize);
    window_ = rig.device->CreateWindow().value();
    UniqueFd mine;
    Require(MakeSeqpacketPair(&peer_, &mine).ok(), "a pair of sockets");
    provider::HandOff hand_off;
    hand_off.record = provider::soft::SharedRecord(kSegmentSize);
    provider::HandOffRecord& record = hand_off.record;
    record.flags = provider::kHandOffConfirm |
                   ((flags & kPeerIsActive) != 0 ? 0u : provider::kHandOffActive) |
                   ((flags & kShareMemory) != 0 ? provider::kHandOffShareMemory : 0u) |
                   ((flags & kRingExtensions) != 0 ? provider::kHandOffExtensions : 0u);
    record.read_inbound = kReadLimits[(flags >> kRingInboundShift) & 3];
    record.read_outbound = kReadLimits[(flags >> kRingOutboundShift) & 3];
    hand_off.fds.emplace_back(dup(shared.segment_fd.get()));
    hand_off.fds.push_back(std::move(mine));
    Require(end_.qp().Attach(std::move(hand_off)).ok(), "a good hand-over is adopted");
  }
  ~HostileRing() {
    end_.Finish();
    window_.reset();
    Look();
    for (const std::uint32_t slot : touched_) Table()[slot].stag.store(0);
  }

  void Run(const RingStepBytes& step, Input* rest);

 private:
  std::uint32_t StagOf(Named named) const;
  std::uint64_t AddressOf(const RingStepBytes& step) const;
  void Record(const RingStepBytes& step, std::uint32_t position, std::uint32_t stamp);
  bool IsBad(std::uint32_t position) const;
  bool MayBePassedUnread() const;
  void Control(const RingStepBytes& step);
  void Post(const RingStepBytes& step);
  void SendDescriptor(const RingStepBytes& step);
  void WriteEntry(const RingStepBytes& step);
  void Window(bool bind);
  void Look();
  RegionEntry* Table() const { return reinterpret_cast<RegionEntry*>(shared_.table.data()); }
  SideControl& peer_control() const { return shared_.layout().side[peer_side_]; }

  QpRig& rig_;
  Shared& shared_;
  provider::Buffer& buffer_;
  const std::uint32_t buffer_stag_, buffer_token_;
  const int peer_side_;
  QpUnderTest end_;
  std::shared_ptr<provider::MemoryWindow> window_;
  UniqueFd peer_;
  std::uint32_t head_ = 0;  // The next position of the peer.
  std::size_t most_received_ = 0;
  std::uint64_t largest_ = kBufferSize;     // The largest length that was sent.
  bool clean_ = true;                       // The peer has written only records in their order.
  std::optional<std::uint32_t> first_bad_;  // The first record that must be refused.
  std::vector<std::uint32_t> touched_;
};

std::uint32_t HostileRing::StagOf(Named named) const {
  switch (named) {
    case Named::kWritable:
      return rig_.regions[kWritablePage]->remote_token();
    case Named::kReadable:
      return rig_.regions[kReadablePage]->remote_token();
    case Named::kPart:
      return rig_.regions[kPartPage]->remote_token();
    case Named::kLocal:
      return rig_.regions[kSourcePage]->remote_token();
    case Named::kBuffer:
      return buffer_stag_;
    case Named::kOwnWindow:
      return window_->remote_token();
    case Named::kNobody:
      return rig_.other_window->remote_token();
    case Named::kZero:
      break;
  }
  return 0;
}

std::uint64_t HostileRing::AddressOf(const RingStepBytes& step) const {
  std::uint64_t base = 0;
  switch (static_cast<Named>(step.c & 7)) {
    case Named::kWritable:
      base = rig_.Address(kWritablePage);
      break;
    case Named::kReadable:
      base = rig_.Address(kReadablePage);
      break;
    case Named::kPart:
      base = rig_.Address(kPartPage, kPartStart);
      break;
    case Named::kLocal:
      base = rig_.Address(kSourcePage);
      break;
    case Named::kBuffer:
      base = reinterpret_cast<std::uintptr_t>(buffer_.data());
      break;
    default:
      base = rig_.Address(kWindowPage, kWindowStart);
      break;
  }
  switch (step.f & 3) {
    case 1:
      return base + 16u * step.g;
    case 2:
      return base - 1;
    case 3:
      return ~std::uint64_t{0} - 16u * step.g;
    default:
      return base;
  }
}

void HostileRing::Record(const RingStepBytes& step, std::uint32_t position, std::uint32_t stamp) {
  Ring& ring = shared_.layout().ring[peer_side_];
  Slot& slot = ring.slots[position % kSlots];
  slot.kind = static_cast<RecordKind>(step.a);
  slot.flags = step.b;
  slot.length = step.d | step.e << 8;
  if ((step.f & 0x80) != 0) slot.length |= 0x80000000u;
  slot.token = StagOf(static_cast<Named>(step.c & 7));
  slot.address = AddressOf(step);
  slot.place = std::uint64_t{step.g} * 257;
  if ((step.f & 0x40) != 0) slot.place = ~std::uint64_t{0} - step.g;
  if (slot.kind == RecordKind::kReadResponse) slot.token = step.c;
  if ((slot.flags & kByReference) != 0) slot.address = step.c;
  for (std::byte& byte : slot.bytes) byte = static_cast<std::byte>(step.g);
  slot.stamp.store(stamp, std::memory_order_release);
}

// Returns true for a piece that exceeds the limit for pieces or the end of the largest buffer.
bool HostileRing::IsBad(std::uint32_t position) const {
  const Slot& slot = shared_.layout().ring[peer_side_].slots[position % kSlots];
  const bool reference = (slot.flags & kByReference) != 0;
  const bool piece = slot.kind == RecordKind::kSend || slot.kind == RecordKind::kWrite ||
                     slot.kind == RecordKind::kReadResponse;
  if (!piece) return false;
  if (reference) return slot.place > largest_ || slot.length > largest_ - slot.place;
  return slot.length > ((slot.flags & kInlineBytes) != 0 ? kInlineSize : kMaxChunk);
}

// A Send without a receive is dropped when a goodbye is queued behind it; the location of its bytes is then
// not checked.
bool HostileRing::MayBePassedUnread() const {
  const auto& slots = shared_.layout().ring[peer_side_].slots;
  if (!first_bad_ || slots[head_ % kSlots].kind != RecordKind::kGoodbye) return false;
  const Slot& bad = slots[*first_bad_ % kSlots];
  return bad.kind == RecordKind::kSend && (bad.flags & kByReference) != 0;
}

void HostileRing::Control(const RingStepBytes& step) {
  SideControl& control = shared_.layout().side[(step.a & 8) != 0 ? 1 - peer_side_ : peer_side_];
  const std::uint32_t value = step.b | step.c << 8 | step.d << 16 | static_cast<std::uint32_t>(step.e) << 24;
  std::atomic<std::uint32_t>* const fields[] = {&control.consumed, &control.armed, &control.number,
                                                &control.end_code, &control.end_position};
  fields[(step.a & 7) % 5]->store(value);
}

void HostileRing::Post(const RingStepBytes& step) {
  std::uint32_t length = step.a | step.b << 8;
  std::uint32_t flags = (step.c & 2) != 0 ? kOpSilentSuccess : 0u;
  const bool inline_data =
      (step.c & 1) != 0 && step.kind != RingStep::kRead && step.kind != RingStep::kReceive;
  const bool receives = step.kind == RingStep::kReceive || step.kind == RingStep::kRead;
  length %= inline_data ? 65 : static_cast<std::uint32_t>(Arena::kPage);
  if (inline_data) flags |= kOpInline;
  Sge sge = rig_.At(receives ? kLocalPage : kSourcePage, 0, length);
  if ((step.c & 16) != 0 && step.kind != RingStep::kReceive) {
    length = static_cast<std::uint32_t>(step.a | step.b << 8) % (kBufferSize - 1);
    if (inline_data) length %= 65;
    sge = {buffer_.data(), length, buffer_token_};
  }
  if (receives && (step.c & 16) == 0) most_received_ = std::max<std::size_t>(most_received_, length);
  if (step.kind == RingStep::kReceive) {
    most_received_ = std::max<std::size_t>(most_received_, sge.length);
    if ((step.c & 32) != 0) sge.local_token = rig_.regions[kSourcePage]->local_token();
    return end_.Posted(end_.qp().Receive(end_.NextReceive(), {&sge, 1}), true, false);
  }
  void* tag = end_.NextInitiator();
  RingStepBytes remote = step;
  remote.c = step.d;
  const std::uint32_t token = StagOf(static_cast<Named>(step.d & 7));
  const std::uint64_t address = AddressOf(remote);
  Status status;
  const bool more = (step.c & 64) != 0;  // Refused without the extensions.
  if (step.kind == RingStep::kSend && more) {
    status = end_.qp().SendWithImmediate(tag, {&sge, 1}, step.d, flags);
  } else if (step.kind == RingStep::kWrite && more) {
    status = end_.qp().WriteWithImmediate(tag, {&sge, 1}, address, token, step.d, flags);
  } else if (step.kind == RingStep::kRead && more) {
    sge.length = provider::kAtomicSize;
    status = (step.c & 128) != 0 ? end_.qp().CompareSwap(tag, sge, address, token, step.a, step.b, flags)
                                 : end_.qp().FetchAdd(tag, sge, address, token, step.a, flags);
  } else if (step.kind == RingStep::kSend) {
    status = (step.c & 8) != 0 ? end_.qp().SendAndInvalidate(tag, {&sge, 1}, flags, token)
                               : end_.qp().Send(tag, {&sge, 1}, flags);
  } else if (step.kind == RingStep::kWrite) {
    status = end_.qp().Write(tag, {&sge, 1}, address, token, flags);
  } else {
    status = end_.qp().Read(tag, {&sge, 1}, address, token, flags);
  }
  end_.Posted(status, false, (flags & kOpSilentSuccess) != 0);
}

void HostileRing::SendDescriptor(const RingStepBytes& step) {
  const UniqueFd* const sent[] = {&shared_.table_fd, &shared_.buffer_fd, &shared_.small_fd,
                                  &shared_.unsealed_fd, &shared_.plain_fd};
  const int fd = sent[step.a % 5]->get();
  const int fds[] = {fd, fd};
  if (step.a % 5 == 0) largest_ = kRegionTableSize;  // The peer may use it as a buffer.
  const ShareMessage message{.kind = step.b, .id = step.c};
  (void)SendWithFds(peer_.get(), std::as_bytes(std::span(&message, 1)),
                    std::span(fds, (step.d & 1) != 0 ? 2 : 1));
}

void HostileRing::WriteEntry(const RingStepBytes& step) {
  // The location that the queue pair will read for this message.
  RingStepBytes named = step;
  named.c = step.a;
  const std::uint32_t stag = StagOf(static_cast<Named>(step.a & 7));
  RegionEntry& entry = Table()[SlotOf(stag)];
  touched_.push_back(SlotOf(stag));
  entry.access.store(step.b);
  const bool borrowed = (step.f & 0x20) != 0;
  entry.buffer.store(borrowed ? 0 : step.c);
  entry.borrowed.store(borrowed ? step.c : 0);
  entry.queue_pair.store(step.d);
  entry.base.store(AddressOf(named));
  entry.length.store((step.f & 0x80) != 0 ? ~std::uint64_t{0} : 16u * step.g);
  entry.buffer_offset.store((step.f & 0x40) != 0 ? ~std::uint64_t{0} - step.e : std::uint64_t{step.e} * 16);
  entry.stag.store(stag);
}

void HostileRing::Window(bool bind) {
  void* tag = end_.NextInitiator();
  const Status status = bind ? end_.qp().BindWindow(tag, *rig_.regions[kWindowPage], *window_,
                                                    rig_.arena.page(kWindowPage) + kWindowStart,
                                                    kWindowLength, kOpAllowRead | kOpAllowWrite)
                             : end_.qp().Invalidate(tag, *window_, 0);
  end_.Posted(status, false, false);
}

void HostileRing::Look() {
  for (int idle = 0; idle < 2;) idle = end_.Poll(nullptr) == 0 ? idle + 1 : 0;
  // Doorbells and descriptors for the peer.
  for (int i = 0; i < 16; ++i) {
    std::byte bytes[64];
    if (!ReceiveWithFds(peer_.get(), bytes, false).ok()) break;
  }
  if (clean_ && first_bad_) {
    Require(shared_.layout().side[1 - peer_side_].consumed.load() <= *first_bad_,
            "a bad piece is not passed");
  }
  const auto same = [&](std::size_t page, std::size_t first, std::size_t size) {
    return std::memcmp(rig_.arena.page(page) + first, rig_.arena.expected(page) + first, size) == 0;
  };
  constexpr std::size_t kPartEnd = kPartStart + kPartLength, kWindowEnd = kWindowStart + kWindowLength;
  Require(same(kReadablePage, 0, Arena::kPage) && same(kSourcePage, 0, Arena::kPage),
          "what is only read never changes");
  Require(same(kPartPage, 0, kPartStart) && same(kPartPage, kPartEnd, Arena::kPage - kPartEnd),
          "a region ends where it ends");
  Require(same(kWindowPage, 0, kWindowStart) && same(kWindowPage, kWindowEnd, Arena::kPage - kWindowEnd),
          "a window ends where it ends");
  Require(same(kLocalPage, most_received_, Arena::kPage - most_received_), "a receive ends where it ends");
}

void HostileRing::Run(const RingStepBytes& step, Input* rest) {
  switch (step.kind) {
    case RingStep::kPublish:
      Record(step, head_, StampOf(head_));
      if (clean_ && !first_bad_ && IsBad(head_)) first_bad_ = head_;
      if (MayBePassedUnread()) clean_ = false;
      ++head_;
      return;
    case RingStep::kStrayRecord:
      clean_ = false;
      Record(step, head_ + step.g, StampOf(head_) + step.f);
      return;
    case RingStep::kControl:
      if ((step.a & 8) != 0) clean_ = false;
      return Control(step);
    case RingStep::kConsumed: {
      const auto& ring = shared_.layout().ring[1 - peer_side_];
      std::uint32_t passed = peer_control().consumed.load();
      while (ring.slots[passed % kSlots].stamp.load() == StampOf(passed)) ++passed;
      peer_control().consumed.store(passed + step.a);
      return;
    }
    case RingStep::kPoke: {
      const std::size_t at = (step.a | step.b << 8 | step.c << 16) % kSegmentSize;
      const auto bytes = rest->Take(step.d);
      clean_ = false;
      std::memcpy(shared_.segment.data() + at, bytes.data(), std::min(bytes.size(), kSegmentSize - at));
      return;
    }
    case RingStep::kReceive:
    case RingStep::kSend:
    case RingStep::kWrite:
    case RingStep::kRead:
      return Post(step);
    case RingStep::kBell: {
      std::byte bytes[64] = {};
      [[maybe_unused]] const auto sent =
          send(peer_.get(), bytes, step.a % sizeof bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
      return;
    }
    case RingStep::kDescriptor:
      return SendDescriptor(step);
    case RingStep::kTableEntry:
      return WriteEntry(step);
    case RingStep::kWindow:
      return Window((step.a & 1) != 0);
    case RingStep::kHangUp:
      shutdown(peer_.get(), SHUT_RDWR);
      break;
    case RingStep::kDisconnect:
      end_.qp().Disconnect((step.a & 1) != 0 ? Duration(std::chrono::hours(1)) : Duration::zero(),
                           [](const Status&) {});
      break;
    case RingStep::kFlush:
      clean_ = false;  // From here on records may be passed unread.
      Require(end_.qp().Flush().ok(), "a flush succeeds");
      break;
    default:
      break;
  }
  Look();
}

}  // namespace
}  // namespace nd::fuzz

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace nd::fuzz;
  struct World {
    QpRig rig;
    std::shared_ptr<nd::provider::Buffer> buffer;
    std::shared_ptr<nd::provider::MemoryRegion> region;
    explicit World(bool patient) : rig(patient) {
      buffer = rig.device->AllocateBuffer(kBufferSize).value();
      region = rig.device
                   ->Register(buffer->data(), kBufferSize,
                              nd::kAllowRemoteRead | nd::kAllowRemoteWrite | nd::kAllowRemoteAtomic)
                   .value();
    }
  };
  static World hasty(false), patient(true);
  static Shared shared;
  constexpr std::size_t kMostSteps = 64;
  Input input(data, size);
  const unsigned first = input.Number();
  const unsigned flags = first | (input.Number() & 1u) << 8;
  World& world = (flags & kPatientRing) != 0 ? patient : hasty;
  HostileRing ring(world.rig, shared, *world.buffer, world.region->remote_token(),
                   world.region->local_token(), flags);
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    RingStepBytes step;
    const auto raw = input.Take(sizeof step);
    std::memcpy(&step, raw.data(), raw.size());
    if (step.kind != RingStep::kDisconnect && step.kind != RingStep::kFlush) {
      step.kind =
          static_cast<RingStep>(static_cast<unsigned>(step.kind) % static_cast<unsigned>(RingStep::kCount));
    }
    ring.Run(step, &input);
  }
  return 0;
}
