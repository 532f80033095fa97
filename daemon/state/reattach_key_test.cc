// SPDX-License-Identifier: Apache-2.0
#include "daemon/state/reattach_key.h"

#include <filesystem>
#include <fstream>
#include <set>

#include "daemon/state/reattach_key_fixture.h"

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

TEST_F(ReattachKeyTest, OutlivesTheBroker) {
  const provider::Bytes proof = Proof();
  EXPECT_EQ(problem_, "");
  EXPECT_EQ(proof.size(), 16u);
  EXPECT_EQ(Proof(), proof);
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
  std::filesystem::resize_file(path(), 23);
  ExpectAnotherKey(proof, "damaged");
  std::ofstream(path(), std::ios::app) << "x";
  ExpectAnotherKey(proof, "damaged");
  std::filesystem::remove(path());
  std::filesystem::create_directory(path());
  static_cast<void>(Proof());
  EXPECT_NE(problem_.find("cannot write"), std::string::npos) << problem_;
}

}  // namespace
}  // namespace nd::state
