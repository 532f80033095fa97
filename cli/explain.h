// SPDX-License-Identifier: Apache-2.0
// The texts of `ndctl explain`, made at build time by explain_generate.py, and the search among them.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace nd::cli {

struct Noun;

struct Topic {
  const char* kind;  // "status", "detail", "state", "field", "message", "request", "setting", "metric".
  const char* name;  // "CONNECTION_REFUSED", "no listener", "ConnectionRow.tx_bytes"
  const char* what;  // Number or type; may be empty.
  const char* text;  // May have several lines.
};

extern const Topic kTopics[];
extern const std::size_t kTopicCount;

struct Explanation {
  const Topic* topic;
  std::string name;  // As it was asked for: "connection.tx_bytes".
};

// Returns every topic that `word` names, best first. Case, and '-', '_' and ' ', make no
// difference. Fields are found by message ("ConnectionRow.state"), list ("ConnectionList.state"), noun
// ("connection.state"), column ("connection.TX") or alone ("tx_bytes"); statuses also by number.
std::vector<Explanation> Explain(const std::string& word, const std::vector<const Noun*>& nouns);

// The topic behind a field of a noun's rows, such as "owner.pid"; null when there is none.
const Topic* ExplainField(const Noun& noun, const std::string& path);

// Returns the names to suggest for a word that Explain() does not know.
std::vector<std::string> TopicNames(const std::vector<const Noun*>& nouns);

}  // namespace nd::cli
