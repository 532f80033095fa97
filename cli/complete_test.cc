// SPDX-License-Identifier: Apache-2.0
// The real tree of commands, with names of a fake broker.
#include "cli/complete.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "cli/man.h"
#include "cli/parse.h"
#include "cli/remote.h"

namespace nd::cli {
namespace {

class Completion : public ::testing::Test {
 protected:
  Completion() : root_(MakeCommandLine(context_)->Describe()) {}
  std::vector<std::string> For(const std::vector<std::string>& words) {
    std::vector<std::string> found;
    for (const Candidate& candidate : Complete(
             root_, words, [&](const std::string& name) { return context_.FindNoun(name); },
             [](const Noun& noun) {
               return std::vector<Candidate>{{noun.name + "-1", {}}, {noun.name + "-2", {}}};
             })) {
      found.push_back(candidate.word);
    }
    return found;
  }
  bool Offers(const std::vector<std::string>& words, const std::string& word) {
    const std::vector<std::string> found = For(words);
    return std::ranges::find(found, word) != found.end();
  }
  Context context_;
  CommandInfo root_;
};

TEST_F(Completion, CommandsVerbsAndLiveNames) {
  EXPECT_TRUE(Offers({""}, "connection"));
  EXPECT_EQ(For({"connec"}), std::vector<std::string>{"connection"});
  EXPECT_TRUE(Offers({"connection", ""}, "kill"));
  EXPECT_EQ(For({"connection", "show", ""}), (std::vector<std::string>{"connection-1", "connection-2"}));
  EXPECT_EQ(For({"connection", "kill", "connection-2"}), std::vector<std::string>{"connection-2"});
  EXPECT_TRUE(For({"nonsense", ""}).size() > 5);
}

TEST_F(Completion, OptionsAndTheirValues) {
  EXPECT_TRUE(Offers({"connection", "list", "--so"}, "--sort"));
  EXPECT_TRUE(Offers({"connection", "list", "--out"}, "--output"));
  EXPECT_EQ(For({"-o", "ya"}), std::vector<std::string>{"yaml"});
  EXPECT_EQ(For({"--output=ya"}), std::vector<std::string>{"--output=yaml"});
  EXPECT_TRUE(Offers({"connection", "list", "--sort", ""}, "state"));
  EXPECT_TRUE(Offers({"connection", "list", "--filter", "sta"}, "state="));
  // The value of an option is not a command.
  EXPECT_TRUE(Offers({"--address", "listener", "connection", ""}, "kill"));
  EXPECT_EQ(For({"completion", "z"}), std::vector<std::string>{"zsh"});
}

TEST_F(Completion, HiddenCommandsStayHidden) {
  for (const std::string& word : For({""})) EXPECT_FALSE(word.starts_with("_") || word == "testing") << word;
}

TEST_F(Completion, EachShellHasAScript) {
  for (const char* shell : {"bash", "zsh", "fish"}) EXPECT_NE(CompletionScript(shell), nullptr);
  EXPECT_EQ(CompletionScript("csh"), nullptr);
}

// Every command and option that the parser knows is on the page.
void Named(const CommandInfo& command, const std::string& page) {
  for (const OptionInfo& option : command.options) {
    if (option.hidden || option.long_names.empty()) continue;
    EXPECT_NE(page.find("--" + option.long_names.front()), std::string::npos) << command.name;
  }
  for (const CommandInfo& sub : command.commands) {
    if (sub.hidden) continue;
    EXPECT_NE(page.find(sub.name), std::string::npos) << sub.name;
    Named(sub, page);
  }
}

TEST_F(Completion, ManualPageNamesEveryCommandAndOption) {
  Named(root_, ManualPage(root_));
}

TEST(ParseHost, TakesNamesAddressesAndPorts) {
  std::string host;
  int port = 0;
  EXPECT_FALSE(ParseHost("alpha", &host, &port));
  EXPECT_EQ(host, "alpha");
  EXPECT_EQ(port, kGatewayPort);
  EXPECT_FALSE(ParseHost("10.0.0.1:77", &host, &port));
  EXPECT_EQ(host, "10.0.0.1");
  EXPECT_EQ(port, 77);
  EXPECT_FALSE(ParseHost("[fd00::1]:78", &host, &port));
  EXPECT_EQ(host, "fd00::1");
  EXPECT_EQ(port, 78);
  EXPECT_FALSE(ParseHost("fd00::1", &host, &port));
  EXPECT_EQ(host, "fd00::1");
  EXPECT_EQ(port, kGatewayPort);
  for (const char* bad : {"", ":1", "a:", "a:0", "a:65536", "a:x", "[::1", "[::1]x"}) {
    const Failure failure = ParseHost(bad, &host, &port);
    ASSERT_TRUE(failure) << bad;
    EXPECT_EQ(failure->exit, Exit::kUsage);
  }
}

}  // namespace
}  // namespace nd::cli
