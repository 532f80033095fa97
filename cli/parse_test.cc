// SPDX-License-Identifier: Apache-2.0
// The command line without a broker: usage errors name the word, an absent broker has its own exit code.
#include "cli/parse.h"
#include "cli/globals.h"

#include <gtest/gtest.h>

#include "cli/testing/run_ndctl.h"

namespace nd::cli {
namespace {

TEST(CommandLine, UnknownWordsGetTheNearest) {
  EXPECT_EQ("ndctl: ndctl has no command 'conection'\n  did you mean 'connection'?\n",
            Ndctl({"conection", "list"}).err);
  EXPECT_EQ("ndctl: ndctl connection has no command 'lst'\n  did you mean 'list'?\n",
            Ndctl({"connection", "lst"}).err);
  EXPECT_EQ("ndctl: ndctl connection list has no option '--filtr'\n  did you mean '--filter'?\n",
            Ndctl({"connection", "list", "--filtr", "a=b"}).err);
  EXPECT_EQ("ndctl: ndctl status does not take 'now'\n  see ndctl status --help\n",
            Ndctl({"status", "now"}).err);
  EXPECT_EQ("ndctl: unknown output format 'jason'\n  did you mean 'json'?\n",
            Ndctl({"status", "-o", "jason"}).err);
  EXPECT_EQ("ndctl: a Listener has no field 'stat'\n  did you mean 'STATE'?\n",
            Ndctl({"listener", "list", "--sort", "stat"}).err);
  EXPECT_EQ("ndctl: a Port has no field 'typ'\n  did you mean 'TYPE'?\n",
            Ndctl({"port", "list", "--filter", "typ=x"}).err);
}

TEST(CommandLine, IntervalOfWatchIsPartOfItsWord) {
  EXPECT_EQ("ndctl: ndctl connection list does not take '3'\n  write --watch=3\n",
            Ndctl({"connection", "list", "--watch", "3"}).err);
}

TEST(CommandLine, UsageErrorsExitWith2) {
  for (const auto& arguments :
       std::vector<std::vector<std::string>>{{},
                                             {"nonsense"},
                                             {"connection", "show"},
                                             {"connection", "kill"},
                                             {"config"},
                                             {"status", "--timeout", "0"},
                                             {"status", "--timeout", "x"},
                                             {"status", "--timeout", "nan"},
                                             {"status", "--color", "sometimes"},
                                             {"ping", "--count", "0"},
                                             {"ping", "--serve"},
                                             {"ping", "nonsense"},
                                             {"ping", "10.0.0.1"},
                                             {"ping", "10.0.0.1:1", "--size", "1"},
                                             {"testing"},
                                             {"wait", "connection"},
                                             {"connection", "list", "--watch=x"},
                                             {"connection", "list", "--watch=0"},
                                             {"connection", "list", "-o", "csv", "-w"},
                                             {"explain", "x", "-o", "custom=y"},
                                             {"stats", "--by", "x"},
                                             {"events", "--since", "never"},
                                             {"trace"},
                                             {"trace", "10.0.0.1"},
                                             {"debug"},
                                             {"status", "--timeout", "5parsecs"},
                                             {"port", "list", "-o", "custom=x"}}) {
    const Ran ran = Ndctl(arguments);
    EXPECT_EQ(2, ran.exit) << ::testing::PrintToString(arguments) << ran.err;
    EXPECT_TRUE(ran.err.starts_with("ndctl: ")) << ran.err;
    EXPECT_EQ("", ran.out);
  }
}

TEST(CommandLine, HelpAndVersionAreNotErrors) {
  EXPECT_EQ(0, Ndctl({"--help"}).exit);
  EXPECT_EQ(0, Ndctl({"connection", "list", "--help"}).exit);
  EXPECT_EQ(0, Ndctl({"--version"}).exit);
  EXPECT_EQ(std::string::npos, Ndctl({"--help"}).out.find("testing"));
}

TEST(CommandLine, ErrorsAreJsonWhenTheOutputIs) {
  const Ran ran = Ndctl({"nonsense", "-o", "json"});
  EXPECT_TRUE(ran.err.starts_with("{\"apiVersion\":\"ndbroker/v1\",\"kind\":\"Error\"")) << ran.err;
  EXPECT_TRUE(WantsJson({"-ojson"}));
  EXPECT_TRUE(WantsJson({"--output=jsonl"}));
  EXPECT_FALSE(WantsJson({"-o", "yaml"}));
  EXPECT_FALSE(WantsJson({"-o"}));
}

TEST(CommandLine, MissingBrokerErrorNamesThePath) {
  const Ran ran = Ndctl({"status", "--address", "/nowhere"});
  EXPECT_EQ(4, ran.exit);
  EXPECT_NE(std::string::npos, ran.err.find("/nowhere")) << ran.err;
  EXPECT_NE(std::string::npos, ran.err.find("start ndbrokerd")) << ran.err;
}

TEST(CommandLine, VersionAnswersWithoutABroker) {
  const Ran ran = Ndctl({"version", "--address", "/nowhere", "-o", "json"});
  EXPECT_EQ(0, ran.exit);
  EXPECT_NE(std::string::npos, ran.out.find("\"broker\": null")) << ran.out;
}

}  // namespace
}  // namespace nd::cli
