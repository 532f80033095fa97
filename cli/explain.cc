// SPDX-License-Identifier: Apache-2.0
// Finds every topic that a word can mean.
#include "cli/explain.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>
#include <set>

#include "cli/noun.h"

namespace nd::cli {
namespace {

std::string Plain(std::string_view text) {
  std::string out(text);
  std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
    return c == '-' || c == ' ' ? '_' : static_cast<char>(std::tolower(c));
  });
  return out;
}

const Topic* FindTopic(std::string_view kind, const std::string& name) {
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    if (kind == kTopics[i].kind && name == kTopics[i].name) return &kTopics[i];
  }
  return nullptr;
}

// The message in the type of a field: Phase for "repeated Phase".
std::string MessageOf(const std::string& type) {
  const std::size_t space = type.rfind(' ');
  return space == std::string::npos ? type : type.substr(space + 1);
}

// Walks "owner.pid" from message to message.
const Topic* Walk(std::string message, std::string path) {
  const Topic* topic = nullptr;
  while (!path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    topic = FindTopic("field", message + "." + path.substr(0, dot));
    if (topic == nullptr) return nullptr;
    message = MessageOf(topic->what);
    path.erase(0, dot == path.size() ? dot : dot + 1);
  }
  return topic;
}

// Commands that show messages but are not nouns.
const Topic* ExplainReport(const std::string& report, const std::string& field) {
  static constexpr std::pair<const char*, const char*> kReports[] = {
      {"status", "BrokerStatus"}, {"history", "HistoryRow"},       {"stats", "StatsRow"},
      {"event", "WatchEvent"},    {"config", "ConfigSetting"},     {"policy", "PolicyRule"},
      {"events", "WatchEvent"},   {"brokerstatus", "BrokerStatus"}};
  for (const auto& [name, message] : kReports) {
    if (report != name) continue;
    const Topic* own = FindTopic("field", "Ndctl." + field);
    return own != nullptr ? own : Walk(message, field);
  }
  return nullptr;
}

bool NamesNoun(const Noun& noun, const std::string& word) {
  return word == Plain(noun.name) || word == Plain(noun.shape.kind) || word == Plain(noun.message) ||
         word == Plain(noun.shape.kind) + "list";
}

// "connection.tx_bytes", "connection.TX", "ConnectionList.owner.pid".
void ExplainNounField(const std::string& word, const std::vector<const Noun*>& nouns,
                      std::vector<Explanation>* found) {
  const std::size_t dot = word.find('.');
  if (dot == std::string::npos) return;
  const std::string field = word.substr(dot + 1);
  for (const Noun* noun : nouns) {
    if (!NamesNoun(*noun, word.substr(0, dot))) continue;
    std::string path = field;
    for (const Column& column : noun->shape.columns) {
      if (Plain(column.header) == field) path = column.path;
    }
    if (const Topic* topic = ExplainField(*noun, path)) found->push_back({topic, noun->name + "." + path});
  }
  if (const Topic* topic = ExplainReport(word.substr(0, dot), field)) found->push_back({topic, word});
}

void ExplainBareField(const std::string& word, std::vector<Explanation>* found) {
  const std::string ending = "." + word;
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const std::string name = Plain(kTopics[i].name);
    if (name.ends_with(ending)) found->push_back({&kTopics[i], kTopics[i].name});
  }
}

// Finds the names of columns, such as "TX".
void ExplainColumn(const std::string& word, const std::vector<const Noun*>& nouns,
                   std::vector<Explanation>* found) {
  for (const Noun* noun : nouns) {
    for (const Column& column : noun->shape.columns) {
      if (Plain(column.header) != word) continue;
      const Topic* topic = ExplainField(*noun, column.path);
      if (topic != nullptr) found->push_back({topic, noun->name + "." + column.path});
    }
  }
}

}  // namespace

const Topic* ExplainField(const Noun& noun, const std::string& path) {
  std::string renamed = path;
  for (const auto& [mine, theirs] : noun.renamed) {
    if (path == mine) renamed = theirs;
    if (path.starts_with(mine + ".")) renamed = theirs + path.substr(mine.size());
  }
  if (const Topic* own = FindTopic("field", "Ndctl." + path)) return own;
  return Walk(noun.message, renamed);
}

std::vector<Explanation> Explain(const std::string& asked, const std::vector<const Noun*>& nouns) {
  const std::string word = Plain(asked);
  std::vector<Explanation> found;
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const bool number =
        word.starts_with("0x") && std::strcmp(kTopics[i].kind, "status") == 0 &&
        std::strtoull(word.c_str(), nullptr, 16) == std::strtoull(kTopics[i].what, nullptr, 16);
    if (number || Plain(kTopics[i].name) == word) found.push_back({&kTopics[i], kTopics[i].name});
  }
  if (found.empty()) ExplainNounField(word, nouns, &found);
  if (found.empty()) ExplainColumn(word, nouns, &found);
  if (found.empty() && !word.empty()) ExplainBareField(word, &found);
  return found;
}

std::vector<std::string> TopicNames(const std::vector<const Noun*>& nouns) {
  std::vector<std::string> names;
  std::set<std::string> fields;
  for (std::size_t i = 0; i < kTopicCount; ++i) {
    const std::string name = kTopics[i].name;
    names.push_back(name);
    if (std::strcmp(kTopics[i].kind, "field") == 0) fields.insert(name.substr(name.rfind('.') + 1));
  }
  for (const Noun* noun : nouns) {
    for (const Column& column : noun->shape.columns) names.push_back(noun->name + "." + column.path);
  }
  names.insert(names.end(), fields.begin(), fields.end());
  return names;
}

}  // namespace nd::cli
