// SPDX-License-Identifier: Apache-2.0
#include "tests/conformance/report.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

namespace nd::conformance {
namespace {

class Report : public ::testing::EmptyTestEventListener {
 public:
  explicit Report(std::FILE* file) : file_(file) {}
  ~Report() override { Close(); }

 private:
  void OnTestStart(const ::testing::TestInfo& test) override {
    if (file_ == nullptr) return;
    finished_ = std::ftell(file_);
    Write(test, R"("failures": [{"failure": "the program ended during this case"}], )", "COMPLETED");
  }
  void OnTestEnd(const ::testing::TestInfo& test) override {
    if (file_ == nullptr) return;
    std::fseek(file_, finished_, SEEK_SET);
    if (ftruncate(fileno(file_), finished_) != 0) return Close();
    const ::testing::TestResult& result = *test.result();
    std::string more = result.Failed() ? R"("failures": [{"failure": "see the log"}], )" : "";
    for (int i = 0; i < result.test_property_count(); ++i) {
      if (std::string(result.GetTestProperty(i).key()) == "excepted") more += R"("excepted": "yes", )";
    }
    Write(test, more, result.Skipped() ? "SKIPPED" : "COMPLETED");
  }
  // gtest writes its report after this.
  void OnTestIterationEnd(const ::testing::UnitTest&, int) override { Close(); }

  // Names of cases have nothing that JSON would need to escape.
  void Write(const ::testing::TestInfo& test, const std::string& more, const char* result) {
    std::fprintf(file_,
                 R"({"testsuites": [{"testsuite": [{"name": "%s", %s"result": "%s"}]}]})"
                 "\n",
                 test.name(), more.c_str(), result);
    std::fflush(file_);
  }
  void Close() {
    if (file_ != nullptr) std::fclose(file_);
    file_ = nullptr;
  }

  std::FILE* file_;
  long finished_ = 0;  // The position behind the results of the finished cases.
};

}  // namespace

void KeepReport(const std::string& path) {
  std::error_code ignored;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, ignored);
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) {
    std::fprintf(stderr, "nd_conformance: cannot write %s; a crash will lose the report\n", path.c_str());
    return;
  }
  ::testing::UnitTest::GetInstance()->listeners().Append(new Report(file));
}

}  // namespace nd::conformance
