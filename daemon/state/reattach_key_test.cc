// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/reattach_key.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

namespace nd::state {
namespace {

std::string Hex(const std::array<std::uint8_t, 16>& bytes) {
  std::string text;
  for (const std::uint8_t byte : bytes) {
    text += "0123456789ABCDEF"[byte >> 4];
    text += "0123456789ABCDEF"[byte & 15];
  }
  return text;
}

// As `openssl mac -macopt hexkey:000102...0f -macopt size:16 SIPHASH` answers.
TEST(SipHash, GivesTheKnownAnswers) {
  HashKey key;
  for (std::uint8_t i = 0; i < 16; ++i) key[i] = i;
  EXPECT_EQ(Hex(SipHash128(key, "")), "A3817F04BA25A8E66DF67214C7550293");
  EXPECT_EQ(Hex(SipHash128(key, "0123456789abcdef")), "B0027D51D2D7DE0BA2E9B5864174FF67");
  EXPECT_EQ(Hex(SipHash128(key, "ndbroker proof text")), "BB5C081532DC755E8C875E216301EA36");
}

class ReattachKeyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "ndkey-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    directory_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }
  std::string path() const { return directory_ + "/" + kReattachKeyName; }
  provider::Bytes Proof(const std::string& boot = "boot") {
    const ReattachKey key(directory_, boot);
    problem_ = key.problem();
    return key.Prove(facts_);
  }

  std::string directory_, problem_;
  core::ConnectionFacts facts_{"soft0", Address::Parse("10.0.0.1:7000").value(),
                               Address::Parse("10.0.0.2:50000").value(), false, 1000};
};

TEST_F(ReattachKeyTest, OutlivesTheBroker) {
  const provider::Bytes proof = Proof();
  EXPECT_EQ(problem_, "");
  EXPECT_EQ(proof.size(), 16u);
  EXPECT_EQ(Proof(), proof);
  struct stat st;
  ASSERT_EQ(::stat(path().c_str(), &st), 0);
  EXPECT_EQ(st.st_mode & 07777, 0600u);
  EXPECT_NE(Proof("another boot"), proof);
  std::filesystem::remove(path());
  EXPECT_NE(Proof(), proof) << "another key";
}

TEST_F(ReattachKeyTest, EachFactChangesTheProof) {
  const ReattachKey key(directory_, "boot");
  std::set<provider::Bytes> proofs = {key.Prove(facts_)};
  const auto with = [&](auto change) {
    core::ConnectionFacts facts = facts_;
    change(facts);
    EXPECT_TRUE(proofs.insert(key.Prove(facts)).second);
  };
  with([](core::ConnectionFacts& f) { f.adapter = "soft1"; });
  with([](core::ConnectionFacts& f) { f.local.set_port(7001); });
  with([](core::ConnectionFacts& f) { f.remote.set_port(50001); });
  with([](core::ConnectionFacts& f) { std::swap(f.local, f.remote); });
  with([](core::ConnectionFacts& f) { f.passive = true; });
  with([](core::ConnectionFacts& f) { f.uid = 1001; });
}

TEST_F(ReattachKeyTest, BadFileIsReportedAndNotUsed) {
  const provider::Bytes proof = Proof();
  const auto damage = [&](const char* said) {
    EXPECT_NE(Proof(), proof);
    EXPECT_NE(problem_.find(said), std::string::npos) << problem_;
    EXPECT_NE(problem_.find("do not come back"), std::string::npos) << problem_;
    EXPECT_NE(Proof(), provider::Bytes());
    EXPECT_EQ(problem_, "") << "it was made anew";
  };
  std::filesystem::resize_file(path(), 23);
  damage("damaged");
  std::ofstream(path(), std::ios::app) << "x";
  damage("damaged");
  ::chmod(path().c_str(), 0644);
  damage("only uid");
  std::filesystem::remove(path());
  std::filesystem::create_symlink("/dev/zero", path());
  damage("cannot open");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  static_cast<void>(Proof());
  EXPECT_NE(problem_.find("cannot write"), std::string::npos) << problem_;
}

}  // namespace
}  // namespace nd::state
