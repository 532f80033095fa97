// SPDX-License-Identifier: Apache-2.0
// Everything that ndctl shows is explained under each of its names.
#include "cli/explain.h"

#include <gtest/gtest.h>

#include <functional>

#include "cli/noun.h"
#include "cli/parse.h"
#include "cli/testing/run_ndctl.h"
#include "nd/status.h"

namespace nd::cli {
namespace {

class ExplainTest : public ::testing::Test {
 protected:
  ExplainTest() {
    MakeCommandLine(context_);
    for (const auto& noun : context_.nouns) nouns_.push_back(noun.get());
  }
  Context context_;
  std::vector<const Noun*> nouns_;
};

TEST_F(ExplainTest, KnowsEveryColumnAndFieldOfEveryNoun) {
  ASSERT_GE(nouns_.size(), 8U);
  for (const Noun* noun : nouns_) {
    for (const Column& column : noun->shape.columns) {
      EXPECT_NE(nullptr, ExplainField(*noun, column.path)) << noun->name << " column " << column.header;
    }
    const std::function<void(const Value&, const std::string&)> walk = [&](const Value& row,
                                                                           const std::string& prefix) {
      for (const auto& [key, value] : row.object()) {
        EXPECT_NE(nullptr, ExplainField(*noun, prefix + key)) << noun->name << "." << prefix << key;
        if (value.is_object()) walk(value, prefix + key + ".");
      }
    };
    walk(noun->shape.sample, "");
  }
}

TEST_F(ExplainTest, EveryStatusAndDetail) {
  int known = 0;
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    if (std::string(kTopics[i].kind) != "status") continue;
    ++known;
    const auto code = StatusCodeFromName(kTopics[i].name);
    ASSERT_TRUE(code) << kTopics[i].name;
    EXPECT_EQ(static_cast<std::uint32_t>(*code), std::strtoul(kTopics[i].what, nullptr, 16))
        << kTopics[i].name;
  }
  EXPECT_EQ(49, known);
  for (int i = 1; Name(static_cast<Detail>(i)) != "unknown"; ++i) {
    EXPECT_FALSE(Explain(std::string(Name(static_cast<Detail>(i))), nouns_).empty()) << i;
  }
}

TEST_F(ExplainTest, TopicsHaveSeveralNames) {
  const auto topic = [&](const std::string& word) {
    const auto found = Explain(word, nouns_);
    return found.empty() ? std::string("nothing") : std::string(found[0].topic->name);
  };
  EXPECT_EQ("CONNECTION_REFUSED", topic("connection-refused"));
  EXPECT_EQ("CONNECTION_REFUSED", topic("0xC0000236"));
  EXPECT_EQ("no listener", topic("No Listener"));
  EXPECT_EQ("ConnectionRow.tx_bytes", topic("connection.tx_bytes"));
  EXPECT_EQ("ConnectionRow.tx_bytes", topic("connection.TX"));
  EXPECT_EQ("ConnectionRow.state", topic("ConnectionList.state"));
  EXPECT_EQ("Owner.pid", topic("listener.owner.pid"));
  EXPECT_EQ("PortRow.kind", topic("port.type"));
  EXPECT_EQ("Counters.connect_failure", topic("status.counters.connect_failure"));
  EXPECT_EQ("Traffic.stalls", topic("stats.traffic.stalls"));
  EXPECT_EQ("Ndctl.why", topic("history.why"));
  EXPECT_EQ("core.max-backlog", topic("core.max-backlog"));
  EXPECT_EQ("PeerClosed", topic("peerclosed"));
  EXPECT_EQ("nothing", topic("xyzzy"));
  EXPECT_EQ("nothing", topic(""));
}

TEST_F(ExplainTest, TheCommand) {
  const Ran status = Ndctl({"explain", "CONNECTION_REFUSED"});
  EXPECT_TRUE(status.out.starts_with("CONNECTION_REFUSED   status, 0xC0000236\n  ")) << status.out;
  EXPECT_NE(std::string::npos, status.out.find("\n  what to do: ")) << status.out;
  const Ran two = Ndctl({"explain", "no", "listener"});
  EXPECT_EQ("no listener   detail, number 1\n  REFUSED: there is no listener on that port.\n", two.out);
  const Ran unknown = Ndctl({"explain", "CONECTION_REFUSED"});
  EXPECT_EQ(3, unknown.exit);
  EXPECT_NE(std::string::npos, unknown.err.find("did you mean 'CONNECTION_REFUSED'?")) << unknown.err;
  const Ran all = Ndctl({"explain"});
  EXPECT_NE(std::string::npos, all.out.find("statuses:\n")) << all.out;
  std::istringstream lines(all.out);
  for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_TRUE(Ndctl({"explain", "-o", "json", "TX"}).out.starts_with("{\n  \"apiVersion\""));
}

}  // namespace
}  // namespace nd::cli
