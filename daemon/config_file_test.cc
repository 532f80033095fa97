// SPDX-License-Identifier: Apache-2.0
// The configuration file that the packages install, deploy/ndbrokerd.toml: every key of the parser is in it
// as a comment with its default, and it has no other key.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "daemon/config.h"

namespace nd {
namespace {

struct Line {
  std::string text;      // Without the leading "# ".
  bool example = false;  // The value is an example, because the default depends on the host.
};

// The installed file, with its commented tables and keys as they are when an administrator removes the "# ".
std::vector<Line> InstalledFile() {
  std::ifstream file(NDBROKER_INSTALLED_CONFIG);
  EXPECT_TRUE(file) << NDBROKER_INSTALLED_CONFIG;
  static const std::regex kCommented(R"(^# (\[\[?[a-z]+\]\]?$|[a-z-]+ = ))");
  std::vector<Line> lines;
  for (std::string text; std::getline(file, text);) {
    Line line{text};
    if (std::regex_search(text, kCommented)) line.text = text.substr(2);
    line.example = text.find("# default: ") != text.npos;
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string Joined(const std::vector<Line>& lines, bool with_examples) {
  std::string text;
  for (const Line& line : lines) {
    if (!with_examples && line.text == "[[rule]]") break;  // The last table; it is an example as a whole.
    if (with_examples || !line.example) text += line.text;
    text += '\n';
  }
  return text;
}

std::map<std::string, Setting> ByName(const Config& config) {
  std::map<std::string, Setting> settings;
  for (const Setting& setting : config.settings) settings[setting.name] = setting;
  return settings;
}

TEST(InstalledConfigFile, HasNothingButComments) {
  std::ifstream file(NDBROKER_INSTALLED_CONFIG);
  std::ostringstream text;
  text << file.rdbuf();
  const Result<Config> config = ParseConfig(text.str(), "ndbrokerd.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  for (const Setting& setting : config->settings) {
    EXPECT_EQ(setting.origin, Setting::Origin::kDefault) << setting.name;
  }
}

TEST(InstalledConfigFile, ShowsEveryKeyWithItsDefault) {
  const std::vector<Line> lines = InstalledFile();
  const Result<Config> config = ParseConfig(Joined(lines, false), "ndbrokerd.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  std::set<std::string> examples;
  std::string section;
  for (const Line& line : lines) {
    if (line.text.starts_with('[')) section = line.text.substr(1, line.text.find(']') - 1);
    if (line.example) examples.insert(section + "." + line.text.substr(0, line.text.find(' ')));
  }
  const auto shown = ByName(*config);
  for (const auto& [name, setting] : ByName(Config::Default())) {
    ASSERT_TRUE(shown.contains(name)) << name;
    if (examples.erase(name) != 0) continue;
    EXPECT_EQ(shown.at(name).origin, Setting::Origin::kFile) << name << " is not in the installed file";
    EXPECT_EQ(shown.at(name).value, setting.value) << "the installed file shows another default of " << name;
  }
  EXPECT_TRUE(examples.empty()) << *examples.begin() << " is no key";
}

TEST(InstalledConfigFile, ShowsNoUnknownKey) {
  std::string text = Joined(InstalledFile(), true);
  // Users and groups of the examples, which a host need not have.
  for (const char* name : {"\"ndbroker\"", "\"ndadmin\"", "\"nvme\""}) {
    for (std::size_t at = text.find(name); at != text.npos; at = text.find(name)) {
      text.replace(at, std::string(name).size(), "\"root\"");
    }
  }
  const Result<Config> config = ParseConfig(text, "ndbrokerd.toml");
  ASSERT_TRUE(config.ok()) << config.status().message();
  const auto settings = ByName(*config);
  for (const char* key : {"match.uid", "match.gid", "match.cgroup", "match.pod-namespace", "match.pod",
                          "match.service-account", "listen", "connect", "quota.sessions", "quota.connectors",
                          "quota.listeners", "quota.shared-endpoints", "quota.queue-pairs", "quota.ports"}) {
    EXPECT_TRUE(settings.contains("rule.storage-target." + std::string(key))) << key;
  }
}

}  // namespace
}  // namespace nd
