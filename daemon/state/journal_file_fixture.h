// SPDX-License-Identifier: Apache-2.0
// For tests: journals that are files of a directory.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "daemon/state/journal.h"
#include "daemon/state/journal_example.h"
#include "daemon/state/journal_file.h"
#include "tests/testing/process.h"

namespace nd::state {

class JournalFileTest : public ::testing::Test {
 protected:
  ~JournalFileTest() override { testing::RemoveTree(directory_); }
  std::string Path(const char* name = "journal") const { return directory_ + "/" + name; }
  std::unique_ptr<Journal> Open() {
    Journal::Options options;
    options.boot = BootId();
    options.tell = [this](bool, const std::string& line) { told_.push_back(line); };
    auto journal = std::make_unique<Journal>(std::make_unique<JournalFile>(directory_), options);
    leases_ = journal->Start(kStart, [](const core::Lease&) { return true; });
    return journal;
  }
  const std::string directory_ = testing::MakeTempDirectory("ndjournal-");
  std::vector<std::string> told_;
  std::vector<core::Lease> leases_;
};

}  // namespace nd::state
