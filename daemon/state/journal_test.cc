// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/journal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>

#include "daemon/state/journal_example.h"
#include "daemon/state/journal_file_fixture.h"

namespace nd::state {
namespace {

using core::Lease;
using core::PortKind;
using std::chrono::seconds;

// A medium that simulates a crash, a full disk and a foreign file.
struct Disk {
  std::vector<std::byte> image;
  bool there = false, full = false, unreadable = false;
  int writes = 0, replaces = 0, discards = 0, asides = 0;
};

class FakeMedium final : public Medium {
 public:
  explicit FakeMedium(Disk& disk) : disk_(disk) {}
  Result<std::vector<std::byte>> Read() override {
    if (disk_.unreadable) return Status(StatusCode::kUnsuccessful, "input/output error");
    return disk_.there ? disk_.image : std::vector<std::byte>();
  }
  Status Write(std::size_t offset, std::span<const std::byte> bytes) override {
    ++disk_.writes;
    if (disk_.full) return {StatusCode::kUnsuccessful, "no space"};
    disk_.image.resize(std::max(disk_.image.size(), offset + bytes.size()));
    std::copy(bytes.begin(), bytes.end(), disk_.image.begin() + static_cast<std::ptrdiff_t>(offset));
    return {};
  }
  Status Replace(std::span<const std::byte> image) override {
    ++disk_.replaces;
    if (disk_.full) return {StatusCode::kUnsuccessful, "no space"};
    disk_.image.assign(image.begin(), image.end());
    disk_.there = true;
    return {};
  }
  void Discard() override {
    ++disk_.discards;
    disk_.there = false;
  }
  Status SetAside() override {
    ++disk_.asides;
    disk_.there = false;
    return {};
  }

 private:
  Disk& disk_;
};

struct Life {
  explicit Life(Disk& disk, Time now = kStart, std::size_t compact_at = 1024)
      : journal(std::make_unique<FakeMedium>(disk), MakeOptions(compact_at)) {
    leases = journal.Start(now, [](const Lease&) { return true; });
  }
  Journal::Options MakeOptions(std::size_t compact_at) {
    Journal::Options options;
    options.boot = kBoot;
    options.compact_at = compact_at;
    options.tell = [this](bool good, const std::string& line) { told.push_back((good ? "+" : "-") + line); };
    return options;
  }
  std::vector<std::string> told;
  Journal journal;
  std::vector<Lease> leases;
};

// Takes and frees leases at random. A recovery must not return a lease beyond the remaining ones.
std::vector<Lease> Churn(Journal& journal, int steps, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::map<Address, Lease> live;
  for (int i = 0; i < steps; ++i) {
    const std::string ip = random() % 2 == 0 ? "10.0.0.1:" : "[fd00::1]:";
    const Lease lease =
        MakeLease(ip + std::to_string(7000 + random() % 40), static_cast<std::uint32_t>(1 + random() % 5),
                  static_cast<PortKind>(random() % 3));
    if (live.erase(lease.local) != 0) {
      journal.Freed(kStart, lease.adapter, lease.local);
    } else {
      live.emplace(lease.local, lease);
      journal.Taken(kStart, lease);
    }
  }
  std::vector<Lease> left;
  for (auto& [local, lease] : live) left.push_back(lease);
  return left;
}

std::vector<Lease> Sorted(std::vector<Lease> leases) {
  std::sort(leases.begin(), leases.end(), [](const Lease& a, const Lease& b) { return a.local < b.local; });
  return leases;
}

bool Within(const std::vector<Lease>& part, const std::vector<Lease>& whole) {
  return std::all_of(part.begin(), part.end(), [&](const Lease& lease) {
    return std::find(whole.begin(), whole.end(), lease) != whole.end();
  });
}

TEST(Journal, NextBrokerGetsExactlyTheHeldLeases) {
  Disk disk;
  std::vector<Lease> truth;
  {
    Life life(disk);
    EXPECT_TRUE(life.leases.empty());
    truth = Churn(life.journal, 500, 1);
    ASSERT_GT(truth.size(), 10u);
    EXPECT_EQ(life.journal.state().leases, truth.size());
  }
  for (int restart = 0; restart < 4; ++restart) {
    Life life(disk, kStart + seconds(60) * restart);
    EXPECT_EQ(Sorted(life.leases), truth) << restart;
    EXPECT_TRUE(life.told.empty());
    EXPECT_TRUE(life.journal.state().journaled);
    EXPECT_EQ(life.journal.state().generation, static_cast<std::uint64_t>(restart) + 2);
  }
}

TEST(Journal, OnlyConfirmedLeasesAreTakenOver) {
  Disk disk;
  {
    Life life(disk);
    Churn(life.journal, 400, 2);
  }
  Journal::Options options;
  options.boot = kBoot;
  Journal journal(std::make_unique<FakeMedium>(disk), options);
  const auto held = journal.Start(kStart, [](const Lease& lease) { return lease.holder.pid == 3; });
  ASSERT_FALSE(held.empty());
  for (const Lease& lease : held) EXPECT_EQ(lease.holder.pid, 3u);
  EXPECT_EQ(Life(disk).leases, held) << "the others are forgotten";
}

TEST(Journal, TruncatedImageKeepsItsPrefixWithoutFreedLeases) {
  Disk disk;
  std::vector<Lease> truth;
  {
    Life life(disk);
    truth = Churn(life.journal, 120, 3);
  }
  const Recovery whole = Recover(disk.image, kBoot);
  ASSERT_EQ(whole.end, Recovery::End::kWhole);
  ASSERT_EQ(Sorted(whole.leases), truth);
  ASSERT_GT(whole.freed, 20u);
  for (std::size_t size = 0; size < disk.image.size(); ++size) {
    const Recovery cut = Recover(std::span(disk.image).first(size), kBoot);
    const std::size_t records = size < kHeaderSize ? 0 : (size - kHeaderSize) / kRecordSize;
    ASSERT_EQ(cut.leases.size() + cut.freed, records) << size;
    ASSERT_TRUE(std::equal(cut.leases.begin(), cut.leases.end(), whole.leases.begin())) << size;
    Disk damaged{{disk.image.begin(), disk.image.begin() + static_cast<std::ptrdiff_t>(size)}, true};
    Life life(damaged);
    ASSERT_EQ(life.leases, cut.leases);
    ASSERT_TRUE(life.journal.state().journaled);
  }
}

TEST(Journal, FlippedBitsNeverRestoreAFreedLease) {
  Disk disk;
  std::vector<Lease> truth;
  {
    Life life(disk);
    truth = Churn(life.journal, 300, 4);
  }
  std::mt19937 random(5);
  std::size_t kept = 0;
  for (int i = 0; i < 100'000; ++i) {
    const std::size_t bit = random() % (disk.image.size() * 8);
    disk.image[bit / 8] ^= std::byte{1} << (bit % 8);
    const Recovery found = Recover(disk.image, kBoot);
    ASSERT_TRUE(Within(found.leases, truth)) << "bit " << bit;
    const std::size_t before = bit / 8 < kHeaderSize ? 0 : (bit / 8 - kHeaderSize) / kRecordSize;
    ASSERT_EQ(found.leases.size() + found.freed, before) << "the prefix is kept, bit " << bit;
    kept += found.leases.size();
    disk.image[bit / 8] ^= std::byte{1} << (bit % 8);
  }
  EXPECT_GT(kept, 100'000u);
  // Also with accumulated damage.
  for (int i = 0; i < 2000; ++i) {
    disk.image[random() % disk.image.size()] ^= std::byte{1} << (random() % 8);
    ASSERT_TRUE(Within(Recover(disk.image, kBoot).leases, truth));
  }
}

TEST(Journal, RecordsOfAnotherIndexOrImageAreInvalid) {
  Disk disk;
  {
    Life life(disk);
    life.journal.Taken(kStart, MakeLease("10.0.0.1:1", 1));
    life.journal.Taken(kStart, MakeLease("10.0.0.1:2", 2));
  }
  auto swapped = disk.image;
  std::swap_ranges(swapped.begin() + kHeaderSize, swapped.begin() + kHeaderSize + kRecordSize,
                   swapped.begin() + kHeaderSize + kRecordSize);
  EXPECT_TRUE(Recover(swapped, kBoot).leases.empty());
  auto older = disk.image;
  const auto record = EncodeRecord(99, 1, MakeLease("10.0.0.1:3", 3));
  std::copy(record.begin(), record.end(), older.begin() + kHeaderSize + kRecordSize);
  EXPECT_EQ(Recover(older, kBoot).leases.size(), 1u);
  EXPECT_EQ(Recover(disk.image, "another boot").end, Recovery::End::kOtherBoot);
  EXPECT_TRUE(Recover(disk.image, "another boot").leases.empty());
  const std::vector<std::byte> zeros(4096);
  EXPECT_EQ(Recover(zeros, kBoot).end, Recovery::End::kBadHeader);
  auto newer = disk.image;
  newer[7] = std::byte{'2'};  // "NDLEASE2"
  EXPECT_EQ(Recover(newer, kBoot).end, Recovery::End::kOtherVersion);
  EXPECT_TRUE(Recover(newer, kBoot).leases.empty());
}

TEST(Journal, IsRewrittenWhenHalfOfItIsFreed) {
  Disk disk;
  Life life(disk, kStart, 64);
  life.journal.Taken(kStart, MakeLease("10.0.0.1:1", 1));
  for (int i = 0; i < 10'000; ++i) {
    life.journal.Taken(kStart, MakeLease("10.0.0.1:2", 2));
    life.journal.Freed(kStart, "soft0", Address::Parse("10.0.0.1:2").value());
  }
  EXPECT_LE(disk.image.size(), kHeaderSize + 64 * kRecordSize);
  EXPECT_LT(disk.replaces, 10'000 / 50);
  EXPECT_EQ(Life(disk).leases, std::vector{MakeLease("10.0.0.1:1", 1)});
  Disk many;
  Life busy(many, kStart, 64);
  for (int port = 1; port <= 2000; ++port) {
    busy.journal.Taken(kStart, MakeLease("10.0.0.1:" + std::to_string(port), 1));
  }
  EXPECT_EQ(many.replaces, 1) << "nothing is dead";
  EXPECT_EQ(Life(many).leases.size(), 2000u);
}

TEST(Journal, FullDiskIsReportedOnceAndWritingResumes) {
  Disk disk;
  Life life(disk);
  life.journal.Taken(kStart, MakeLease("10.0.0.1:1", 1));
  life.journal.Taken(kStart, MakeLease("10.0.0.1:2", 2));
  disk.full = true;
  life.journal.Taken(kStart, MakeLease("10.0.0.1:3", 3));
  EXPECT_FALSE(life.journal.state().journaled);
  EXPECT_EQ(life.journal.state().problem, "no space");
  EXPECT_FALSE(disk.there) << "what is freed from here on could not be marked";
  life.journal.Freed(kStart, "soft0", MakeLease("10.0.0.1:1", 1).local);
  Time now = kStart;
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(life.journal.retry_at());
    ASSERT_GT(*life.journal.retry_at(), now);
    now = *life.journal.retry_at();
    life.journal.Retry(now);
  }
  EXPECT_EQ(life.told.size(), 1u) << "one warning";
  EXPECT_LE(*life.journal.retry_at() - now, seconds(64));
  disk.full = false;
  // A change triggers a retry once it is due.
  life.journal.Taken(*life.journal.retry_at(), MakeLease("10.0.0.1:4", 4));
  EXPECT_TRUE(life.journal.state().journaled);
  EXPECT_FALSE(life.journal.retry_at());
  ASSERT_EQ(life.told.size(), 2u);
  EXPECT_EQ(life.told.back().front(), '+');
  EXPECT_EQ(Sorted(Life(disk).leases), (std::vector{MakeLease("10.0.0.1:2", 2), MakeLease("10.0.0.1:3", 3),
                                                    MakeLease("10.0.0.1:4", 4)}));
}

TEST(Journal, FreedMarkThatCannotBeWrittenRestoresNothing) {
  Disk disk;
  {
    Life life(disk);
    life.journal.Taken(kStart, MakeLease("10.0.0.1:1", 1));
    disk.full = true;
    life.journal.Freed(kStart, "soft0", MakeLease("10.0.0.1:1", 1).local);
  }
  disk.full = false;
  EXPECT_TRUE(Life(disk).leases.empty());
}

TEST(Journal, UnreadableJournalDoesNotPreventTheStart) {
  Disk disk;
  disk.unreadable = true;
  Life life(disk);
  EXPECT_TRUE(life.leases.empty());
  EXPECT_FALSE(life.journal.state().journaled);
  ASSERT_EQ(life.told.size(), 1u);
  life.journal.Retry(*life.journal.retry_at());
  EXPECT_TRUE(life.journal.state().journaled);
}

TEST(Journal, ACrashLoopKeepsEachPortForItsUser) {
  Disk disk;
  Time now = kStart;
  for (std::size_t crash = 0; crash < kStarts; ++crash, now += seconds(5)) {
    Life life(disk, now);
    EXPECT_FALSE(life.journal.state().set_aside);
    life.journal.Taken(now, MakeLease("10.0.0.1:" + std::to_string(crash + 1), 1));
    EXPECT_EQ(life.leases.size(), crash);
  }
  {
    Life life(disk, now);
    ASSERT_EQ(life.leases.size(), kStarts);
    for (const Lease& lease : life.leases) EXPECT_EQ(lease.holder, (core::Process{1000, 0, 0}));
    EXPECT_TRUE(life.journal.state().set_aside);
    EXPECT_EQ(disk.asides, 1);
    ASSERT_EQ(life.told.size(), 1u);
    EXPECT_NE(life.told[0].find("5 times within 30 s"), std::string::npos) << life.told[0];
    life.journal.Taken(now, MakeLease("10.0.0.1:9", 1));
  }
  // Counting starts again from there; further crash loops change nothing.
  for (std::size_t crash = 0; crash < 3 * kStarts; ++crash) {
    EXPECT_EQ(Life(disk, now).leases.size(), kStarts + 1) << crash;
  }
  EXPECT_EQ(disk.asides, 4);
}

TEST(Journal, SlowOrOrderlyEndsAreNotACrashLoop) {
  Disk slow;
  for (int i = 0; i < 12; ++i) EXPECT_FALSE(Life(slow, kStart + seconds(8) * i).journal.state().set_aside);
  Disk orderly;
  for (int i = 0; i < 12; ++i) {
    Life life(orderly, kStart);
    EXPECT_FALSE(life.journal.state().set_aside);
    if (i == 0) life.journal.Taken(kStart, MakeLease("10.0.0.1:1", 1));
    EXPECT_EQ(life.leases.size(), i == 0 ? 0u : 1u) << "an orderly end keeps the ports too";
    life.journal.Stop(kStart);
  }
}

TEST_F(JournalFileTest, SurvivesItsWriter) {
  EXPECT_FALSE(BootId().empty());
  EXPECT_LE(BootId().size(), kMaxBootId);
  {
    const auto journal = Open();
    journal->Taken(kStart, MakeLease("10.0.0.1:1", 1));
    journal->Taken(kStart, MakeLease("[fd00::1]:2", 2));
    journal->Freed(kStart, "soft0", MakeLease("10.0.0.1:1", 1).local);
  }
  EXPECT_EQ(std::filesystem::file_size(Path()), kHeaderSize + 2 * kRecordSize);
  Open();
  EXPECT_EQ(leases_, std::vector{MakeLease("[fd00::1]:2", 2)});
  EXPECT_FALSE(std::filesystem::exists(Path("journal.new")));
}

TEST_F(JournalFileTest, DirectoryInItsPlaceIsNotTouchedAndServiceContinues) {
  std::filesystem::create_directory(Path());
  const auto journal = Open();
  EXPECT_FALSE(journal->state().journaled);
  EXPECT_NE(journal->state().problem.find("no ordinary file"), std::string::npos) << journal->state().problem;
  journal->Taken(kStart, MakeLease("10.0.0.1:1", 1));
  std::filesystem::remove(Path());
  journal->Retry(*journal->retry_at());
  EXPECT_TRUE(journal->state().journaled);
  Open();
  EXPECT_EQ(leases_.size(), 1u);
}

TEST_F(JournalFileTest, TruncationByAnotherProcessIsHarmless) {
  const auto journal = Open();
  for (int port = 1; port <= 100; ++port) {
    journal->Taken(kStart, MakeLease("10.0.0.1:" + std::to_string(port), 1));
    if (port == 50) std::filesystem::resize_file(Path(), 0);
  }
  journal->Freed(kStart, "soft0", MakeLease("10.0.0.1:3", 1).local);
  EXPECT_TRUE(journal->state().journaled);
  Open();
  EXPECT_TRUE(leases_.empty()) << "the header is gone";
}

TEST_F(JournalFileTest, CrashLoopKeepsTheFileForInspection) {
  for (std::size_t i = 0; i <= kStarts; ++i) Open()->Taken(kStart, MakeLease("10.0.0.1:1", 1));
  EXPECT_TRUE(std::filesystem::exists(Path("journal.bad")));
  ASSERT_EQ(told_.size(), 1u);
  EXPECT_NE(told_[0].find("journal.bad"), std::string::npos);
}

}  // namespace
}  // namespace nd::state
