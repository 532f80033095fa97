// SPDX-License-Identifier: Apache-2.0
// For tests: keys of proofs in a directory, and a connection that they prove.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "daemon/state/reattach_key.h"
#include "tests/testing/process.h"

namespace nd::state {

class ReattachKeyTest : public ::testing::Test {
 protected:
  ~ReattachKeyTest() override { testing::RemoveTree(directory_); }
  std::string path() const { return directory_ + "/" + kReattachKeyName; }
  provider::Bytes Proof(const std::string& boot = "boot") {
    const ReattachKey key(directory_, boot);
    problem_ = key.problem();
    return key.Prove(facts_);
  }
  // The file is reported and not used, and a new one is made.
  void ExpectAnotherKey(const provider::Bytes& proof, const char* said) {
    EXPECT_NE(Proof(), proof);
    EXPECT_NE(problem_.find(said), std::string::npos) << problem_;
    EXPECT_NE(problem_.find("do not come back"), std::string::npos) << problem_;
    EXPECT_NE(Proof(), provider::Bytes());
    EXPECT_EQ(problem_, "") << "it was made anew";
  }

  const std::string directory_ = testing::MakeTempDirectory("ndkey-");
  std::string problem_;
  core::ConnectionFacts facts_{"soft0", Address::Parse("10.0.0.1:7000").value(),
                               Address::Parse("10.0.0.2:50000").value(), false, 1000};
};

}  // namespace nd::state
