// SPDX-License-Identifier: Apache-2.0
// The program's own shared memory: the peer maps what a region contains, so that Writes, Reads and atomic
// operations are done by the initiator alone, within the rights of the region.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <future>
#include <string>
#include <thread>

#include "base/lane_sender.h"
#include "base/lent_memory.h"
#include "base/os/process_memory.h"
#include "provider/soft/qp/memory.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

using ms = std::chrono::milliseconds;

constexpr std::size_t kSharedSize = 64 * 1024;
constexpr std::uint32_t kEveryRight =
    kAllowRemoteRead | kAllowRemoteWrite | kAllowLocalWrite | kRdmaReadSink | kAllowRemoteAtomic;
constexpr std::uint32_t kReadRights = kAllowLocalWrite | kAllowRemoteRead;

// A memfd that a program has mapped.
struct Shared {
  explicit Shared(bool read_only = false) {
    if (read_only) {
      fd = CreateReadOnlyMemfd("test-program", kSharedSize, &mapping).value();
    } else {
      fd = CreateSealedMemfd("test-program", kSharedSize).value();
      mapping = Mapping::Map(fd.get(), kSharedSize, true).value();
    }
  }
  std::uint64_t Address() const { return reinterpret_cast<std::uintptr_t>(mapping.data()); }
  // The peer, which is this process too, has mapped it.
  bool Given() const {
    const std::string number = " " + std::to_string(os::NumberOf(fd.get())->second) + " ";
    std::ifstream maps("/proc/self/maps");
    int mappings = 0;
    for (std::string line; std::getline(maps, line);)
      mappings += line.find(number) != line.npos && line.find("/memfd:test-program") != line.npos ? 1 : 0;
    return mappings == 2;
  }
  UniqueFd fd;
  Mapping mapping;
};

// The application of b does nothing, and b has no progress thread. b looks as if it polled, so that a request
// for ordinary memory waits in the ring for it.
class BorrowedTest : public ::testing::Test {
 protected:
  void Connect(const Tuning& tuning_a = {}, const Tuning& tuning_b = {}) {
    a_ = std::make_unique<End>(tuning_a);
    b_ = std::make_unique<End>(tuning_b, false);
    HandOffs both = MakeHandOffs(Link::kShared);
    segment_ = Mapping::Map(both.active.fds[0].get(), kSegmentSize, true).value();
    ASSERT_TRUE(b_->qp->Attach(std::move(both.passive)).ok());
    ASSERT_TRUE(a_->qp->Attach(std::move(both.active)).ok());
    mine_ = std::make_unique<Memory>(*a_, kSharedSize, false, kEveryRight);
    mine_->Fill(1);
    Layout().side[1].armed = 0;
  }
  Segment& Layout() const { return *reinterpret_cast<Segment*>(segment_.data()); }
  std::shared_ptr<MemoryRegion> Register(const Shared& memory, std::uint32_t access = kEveryRight,
                                         const RegionOptions& options = {}) const {
    return b_->device->RegisterAs(memory.mapping.data(), kSharedSize, access, options).value();
  }
  Status Write(const MemoryRegion& region, std::uint64_t address, std::size_t size = kSharedSize) const {
    const Sge from = mine_->At(0, size);
    return a_->qp->Write(Tag(1), {&from, 1}, address, region.remote_token(), 0);
  }
  Status Read(const MemoryRegion& region, std::uint64_t address, std::size_t size = kSharedSize) const {
    const Sge to = mine_->At(0, size);
    return a_->qp->Read(Tag(2), {&to, 1}, address, region.remote_token(), 0);
  }
  // The next completion of a; with_b: b polls. DEVICE_BUSY: it does not come.
  StatusCode Next(bool with_b) const {
    Completion done;
    for (const Time end = In(with_b ? ms(5000) : ms(50)); Time(std::chrono::steady_clock::now()) < end;) {
      if (a_->cq->Poll({&done, 1}) == 1) return done.status;
      Completion none;
      if (with_b) b_->cq->Poll({&none, 1});
    }
    return StatusCode::kDeviceBusy;
  }
  StatusCode Alone() const { return Next(false); }
  StatusCode WithB() const { return Next(true); }
  // b gives its memory, when it does, with the first request, which goes through the ring.
  void ReadThroughTheRing(const MemoryRegion& region, std::uint64_t address) const {
    ASSERT_TRUE(Read(region, address, 8).ok());
    EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
    EXPECT_EQ(WithB(), StatusCode::kSuccess);
  }
  bool Same(const Shared& memory, std::size_t size = kSharedSize) const {
    return std::memcmp(mine_->data, memory.mapping.data(), size) == 0;
  }

  Mapping segment_;
  std::unique_ptr<End> a_, b_;
  std::unique_ptr<Memory> mine_;
};

TEST_F(BorrowedTest, TheInitiatorDoesAllOperationsAlone) {
  Connect();
  const Shared memory;
  const auto region = Register(memory, kEveryRight, {.domain = 0, .remote_base = 4096});
  ReadThroughTheRing(*region, 4096);
  mine_->Fill(2);
  ASSERT_TRUE(Write(*region, 4096).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(memory));
  std::memset(memory.mapping.data(), 7, kSharedSize);
  ASSERT_TRUE(Read(*region, 4096).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_TRUE(Same(memory));
  std::memset(memory.mapping.data(), 0, kSharedSize);
  const Sge before = mine_->At(8, 8);
  ASSERT_TRUE(a_->qp->FetchAdd(Tag(3), before, 4096 + 8, region->remote_token(), 5, 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  EXPECT_EQ(memory.mapping.data()[8], std::byte{5});
  EXPECT_EQ(b_->counters.rx_writes.load(), 0u);
  EXPECT_TRUE(memory.Given());
}

TEST_F(BorrowedTest, AtomicOperationsNeedTheRightOfTheRegion) {
  Connect();
  const Shared memory;
  const auto region = Register(memory, kReadRights | kAllowRemoteWrite);
  ReadThroughTheRing(*region, memory.Address());
  const Sge before = mine_->At(8, 8);
  ASSERT_TRUE(a_->qp->FetchAdd(Tag(3), before, memory.Address(), region->remote_token(), 5, 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy) << "b answers";
  EXPECT_EQ(WithB(), StatusCode::kAccessViolation);
  EXPECT_EQ(memory.mapping.data()[0], std::byte{0});
}

TEST_F(BorrowedTest, AtomicOperationsNeedMemoryForTheValueBefore) {
  Connect();
  const Shared memory;
  const auto region = Register(memory);
  ReadThroughTheRing(*region, memory.Address());
  const Memory constant(*a_, 8, false, kAllowRemoteRead);
  const Sge before = constant.At(0, 8);
  ASSERT_TRUE(a_->qp->FetchAdd(Tag(3), before, memory.Address(), region->remote_token(), 5, 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kAccessViolation);
  EXPECT_EQ(memory.mapping.data()[0], std::byte{0});
}

TEST_F(BorrowedTest, MemoryThatIsRegisteredAgainIsMappedAlready) {
  Connect();
  const Shared memory;
  auto region = Register(memory);
  ReadThroughTheRing(*region, memory.Address());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(region->Deregister().ok());
    region = Register(memory);
    ASSERT_TRUE(Write(*region, memory.Address()).ok());
    EXPECT_EQ(Alone(), StatusCode::kSuccess);
  }
}

// A device has pinned the pages, too.
TEST_F(BorrowedTest, UnmappedMemoryIsStillTheFile) {
  Connect();
  Shared memory;
  const auto region = Register(memory);
  const std::uint64_t address = memory.Address();
  ReadThroughTheRing(*region, address);
  memory.mapping = Mapping();
  ASSERT_TRUE(Write(*region, address).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  memory.mapping = Mapping::Map(memory.fd.get(), kSharedSize, true).value();
  EXPECT_TRUE(Same(memory));
}

TEST_F(BorrowedTest, ALaterRequestDoesNotOvertakeASend) {
  Connect();
  const Shared memory;
  const auto region = Register(memory);
  ReadThroughTheRing(*region, memory.Address());
  const Sge in{memory.mapping.data(), 8, region->local_token()}, out = mine_->At(0, 8);
  ASSERT_TRUE(b_->qp->Receive(Tag(9), {&in, 1}).ok());
  mine_->Fill(3);
  ASSERT_TRUE(a_->qp->Send(Tag(1), {&out, 1}, 0).ok());
  const Sge to = mine_->At(64, 8);
  ASSERT_TRUE(a_->qp->Read(Tag(2), {&to, 1}, memory.Address(), region->remote_token(), 0).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_EQ(std::memcmp(mine_->data, mine_->data + 64, 8), 0) << "the Read has seen the Send";
}

// The ring, which b serves, is left for what the peer may not do itself.
TEST_F(BorrowedTest, MemoryIsGivenOnlyWithinTheRightsOfTheRegion) {
  struct Case {
    const char* name;
    bool sealed;
    std::uint32_t access;
    bool given;
  };
  for (const Case& c : {Case{"a peer could write what it may only read", false, kReadRights, false},
                        Case{"sealed against writing", true, kReadRights, true},
                        Case{"what is sealed is not given for writing", true, kEveryRight, false},
                        Case{"all rights", false, kEveryRight, true}}) {
    Connect();
    const Shared memory(c.sealed);
    const auto region = Register(memory, c.access);
    ReadThroughTheRing(*region, memory.Address());
    ASSERT_TRUE(Read(*region, memory.Address()).ok());
    EXPECT_EQ(WithB(), StatusCode::kSuccess) << c.name;
    EXPECT_EQ(memory.Given(), c.given) << c.name;
  }
}

TEST_F(BorrowedTest, ARegionOfAPartGivesNothing) {
  Connect();
  const Shared memory;
  const auto region = b_->device->Register(memory.mapping.data(), kSharedSize / 2, kEveryRight).value();
  ReadThroughTheRing(*region, memory.Address());
  ASSERT_TRUE(Write(*region, memory.Address(), 64).ok());
  EXPECT_EQ(WithB(), StatusCode::kSuccess);
  EXPECT_FALSE(memory.Given());
}

TEST_F(BorrowedTest, WhoMayNotReachTheProcessGetsNoMemory) {
  Tuning off;
  off.process_access = false;
  for (const bool here : {true, false}) {
    Connect(here ? off : Tuning{}, here ? Tuning{} : off);
    const Shared memory;
    const auto region = Register(memory);
    ReadThroughTheRing(*region, memory.Address());
    ASSERT_TRUE(Write(*region, memory.Address()).ok());
    EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
    EXPECT_FALSE(memory.Given());
  }
}

TEST_F(BorrowedTest, RightsAndDomainsOfTheQueuePairHold) {
  Connect();
  ASSERT_TRUE(b_->qp->SetProtection({.domain = 7, .receive_domain = 7}).ok());
  const Shared memory;
  const auto region = Register(memory, kEveryRight, {.domain = 7});
  ReadThroughTheRing(*region, memory.Address());
  ASSERT_TRUE(Write(*region, memory.Address()).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  ASSERT_TRUE(
      b_->qp->SetProtection({.domain = 7, .receive_domain = 7, .remote_access = kAllowRemoteRead}).ok());
  mine_->Fill(4);
  ASSERT_TRUE(Write(*region, memory.Address()).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_FALSE(Same(memory));
}

TEST_F(BorrowedTest, AnotherDomainIsNotReached) {
  Connect();
  const Shared memory;
  const auto region = Register(memory);
  ReadThroughTheRing(*region, memory.Address());
  ASSERT_TRUE(b_->qp->SetProtection({.domain = 8, .receive_domain = 8}).ok());
  ASSERT_TRUE(Write(*region, memory.Address()).ok());
  EXPECT_EQ(Alone(), StatusCode::kDeviceBusy);
  EXPECT_FALSE(Same(memory));
}

// The memory is the program's: it uses it for other things as soon as the registration has ended.
TEST_F(BorrowedTest, TheEndOfARegistrationWaitsForAPeerThatWasStopped) {
  Connect();
  const Shared memory;
  const auto region = Register(memory);
  ReadThroughTheRing(*region, memory.Address());
  constexpr Duration kLong = kRevokePatience + ms(300);
  Layout().side[0].hazard = region->remote_token();
  const Time start = std::chrono::steady_clock::now();
  auto goes_on = std::async(std::launch::async, [&] {
    std::this_thread::sleep_for(kLong);
    Layout().side[0].hazard = 0;
  });
  EXPECT_TRUE(region->Deregister().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, kLong - ms(10));
  EXPECT_EQ(b_->closed.load(), 0);
}

// Memory that the allocator of this process shares, while this object lives.
class Lent {
 public:
  Lent() {
    current_ = &memory;
    SetMemoryLender([](const void* address, std::size_t length) -> std::optional<os::MemfdBehind> {
      const std::uint64_t offset = reinterpret_cast<std::uintptr_t>(address) - current_->Address();
      if (offset >= kSharedSize || length > kSharedSize - offset) return std::nullopt;
      os::MemfdBehind found;
      found.fd = os::Duplicate(current_->fd.get());
      found.number = *os::NumberOf(found.fd.get());
      found.begin = current_->mapping.data();
      found.size = kSharedSize;
      found.writable = true;
      return found;
    });
  }
  ~Lent() { SetMemoryLender(nullptr); }
  const Shared memory;

 private:
  static inline const Shared* current_ = nullptr;
};

TEST_F(BorrowedTest, TheInitiatorAccessesTheRegionsOfLentMemoryAlone) {
  Connect();
  const Lent lent;
  constexpr std::size_t kPart = 8192;
  std::byte* const memory = lent.memory.mapping.data();
  // Two regions of one memfd, which the peer maps once.
  const auto first = b_->device->Register(memory + 100, kPart, kEveryRight).value();
  const auto second = b_->device->Register(memory + 20000, kPart, kEveryRight).value();
  ReadThroughTheRing(*first, lent.memory.Address() + 100);
  for (const auto& [region, offset] : {std::pair(first, 100), std::pair(second, 20000)}) {
    ASSERT_TRUE(Write(*region, lent.memory.Address() + offset, kPart).ok());
    EXPECT_EQ(Alone(), StatusCode::kSuccess);
    EXPECT_EQ(std::memcmp(memory + offset, mine_->data, kPart), 0);
    EXPECT_EQ(memory[offset - 1], std::byte{0});
    EXPECT_EQ(memory[offset + kPart], std::byte{0});
  }
  EXPECT_TRUE(lent.memory.Given());
  ASSERT_TRUE(Write(*second, lent.memory.Address() + 20001, kPart).ok()) << "outside of the region";
  EXPECT_EQ(WithB(), StatusCode::kAccessViolation);
  EXPECT_EQ(memory[20000 + kPart], std::byte{0});
}

TEST_F(BorrowedTest, LentMemoryThatMayOnlyBeReadIsNotWritten) {
  Connect();
  const Lent lent;
  const auto region = Register(lent.memory, kReadRights);
  ReadThroughTheRing(*region, lent.memory.Address());
  ASSERT_TRUE(Read(*region, lent.memory.Address()).ok());
  EXPECT_EQ(Alone(), StatusCode::kSuccess);
  mine_->Fill(5);
  ASSERT_TRUE(Write(*region, lent.memory.Address()).ok());
  EXPECT_EQ(WithB(), StatusCode::kAccessViolation);
  EXPECT_EQ(lent.memory.mapping.data()[0], std::byte{0});
}

// A process that could not reach this one's memory gets no part of it.
TEST_F(BorrowedTest, LentMemoryIsForProcessesToWhichThisOneIsOpen) {
  Connect();
  const Lent lent;
  const auto region = Register(lent.memory);
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 0), 0);
  ReadThroughTheRing(*region, lent.memory.Address());
  ASSERT_EQ(prctl(PR_SET_DUMPABLE, 1), 0);
  EXPECT_FALSE(lent.memory.Given());
}

TEST(IsOpenToTest, ProcessesOfThisUserOnly) {
  EXPECT_TRUE(os::IsOpenTo(static_cast<std::uint32_t>(getpid())));
  EXPECT_FALSE(os::IsOpenTo(0));
  if (geteuid() != 0) GTEST_SKIP() << "only root becomes another user";
  int done[2];
  ASSERT_EQ(pipe(done), 0);
  const pid_t child = fork();
  if (child == 0) {
    const bool changed = setuid(65534) == 0 && write(done[1], "x", 1) == 1;
    pause();
    _exit(changed ? 0 : 1);
  }
  char ready = 0;
  EXPECT_EQ(read(done[0], &ready, 1), 1);
  EXPECT_FALSE(os::IsOpenTo(static_cast<std::uint32_t>(child)));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  close(done[0]);
  close(done[1]);
}

// Of all that a sends.
bool SendsByReference(Segment& layout) {
  return std::ranges::any_of(layout.ring[0].slots, [](const Slot& slot) {
    return slot.kind == RecordKind::kSend && (slot.flags & kByReference) != 0;
  });
}

TEST_F(BorrowedTest, ASendRefersToLentMemory) {
  for (const bool is_lent : {true, false}) {
    Connect();
    const Lent lent;
    const Shared whole;
    const Shared& memory = is_lent ? lent.memory : whole;
    std::byte* const data = memory.mapping.data();
    std::memset(data + 64, 6, kSharedSize - 64);
    const auto from = a_->device->Register(data, kSharedSize, kEveryRight).value();
    const Memory to(*b_, kSharedSize, false, kEveryRight);
    const Sge in = to.At(0, kSharedSize);
    const Sge out{data + 64, static_cast<std::uint32_t>(kSharedSize - 64), from->local_token()};
    // The first one asks for the process of the peer, and the answer takes some polls.
    for (int sent = 0; sent < (is_lent ? 100 : 3) && !SendsByReference(Layout()); ++sent) {
      std::memset(to.data, 0, kSharedSize);
      ASSERT_TRUE(b_->qp->Receive(Tag(9), {&in, 1}).ok());
      ASSERT_TRUE(a_->qp->Send(Tag(1), {&out, 1}, 0).ok());
      EXPECT_EQ(WithB(), StatusCode::kSuccess);
      EXPECT_EQ(std::memcmp(to.data, data + 64, kSharedSize - 64), 0);
      EXPECT_FALSE(sent == 0 && SendsByReference(Layout())) << "the peer may be unable to map the memory";
    }
    EXPECT_EQ(SendsByReference(Layout()), is_lent) << "other memory of the program is never referred to";
  }
}

// The peer is this test. What its table says of the memory that it gives is not true.
TEST(BorrowedHostile, MemoryThatIsNotAsTheTableSaysLeadsToTheRing) {
  struct Lie {
    const char* name;
    bool read_only;
    std::uint64_t offset;
    bool atomic = false;
  };
  for (const Lie& lie :
       {Lie{"cannot be written", true, 0}, Lie{"ends before", false, kSharedSize - 4},
        Lie{"far behind the end", false, ~std::uint64_t{0} - 3}, Lie{"is not aligned", false, 4, true}}) {
    HandOffs both = MakeHandOffs(Link::kShared);
    Mapping segment = Mapping::Map(both.passive.fds[0].get(), kSegmentSize, true).value();
    auto& layout = *reinterpret_cast<Segment*>(segment.data());
    const UniqueFd table_fd = CreateSealedMemfd("test-table", kRegionTableSize).value();
    Mapping table = Mapping::Map(table_fd.get(), kRegionTableSize, true).value();
    const std::uint32_t stag = 0x12345678;
    auto& entry = reinterpret_cast<RegionEntry*>(table.data())[SlotOf(stag)];
    entry.access = kAllowRemoteWrite | kAllowRemoteRead | kAllowRemoteAtomic;
    entry.base = 4096;
    entry.length = kSharedSize;
    entry.buffer_offset = lie.offset;
    entry.borrowed = 5;
    entry.stag = stag;
    const Shared memory(lie.read_only);
    const int socket = both.passive.fds[1].get();
    for (const bool buffer : {false, true}) {
      const ShareMessage message{.kind = buffer ? ShareMessage::kBuffer : ShareMessage::kRegionTable,
                                 .id = buffer ? 5u : 0u};
      const int fd = buffer ? memory.fd.get() : table_fd.get();
      ASSERT_TRUE(SendInMyName(socket, std::as_bytes(std::span(&message, 1)), std::span(&fd, 1)).ok());
    }
    End end;
    ASSERT_TRUE(end.qp->Attach(std::move(both.active)).ok());
    Memory mine(end, 4096, false, kEveryRight);
    const Sge from = mine.At(0, 8);
    // The memory of the peer is there when the first one has asked for it.
    for (std::uint32_t record = 1; record <= 2; ++record) {
      ASSERT_TRUE((lie.atomic ? end.qp->FetchAdd(Tag(1), from, 4096, stag, 1, 0)
                              : end.qp->Write(Tag(1), {&from, 1}, 4096, stag, 0))
                      .ok());
      const Slot& slot = layout.ring[0].slots[record];
      ASSERT_TRUE(end.Until([&] { return slot.stamp.load() == 1; })) << lie.name;
      EXPECT_EQ(slot.kind, lie.atomic ? RecordKind::kFetchAdd : RecordKind::kWrite) << lie.name;
    }
    EXPECT_EQ(end.closed.load(), 0) << lie.name;
  }
}

}  // namespace
}  // namespace nd::provider::soft
