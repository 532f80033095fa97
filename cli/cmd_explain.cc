// SPDX-License-Identifier: Apache-2.0
// ndctl explain: what a status, detail, field, column, counter, metric or setting means. Needs no broker.
#include <map>
#include <memory>

#include "cli/commands.h"
#include "cli/explain.h"
#include "cli/nearest.h"
#include "cli/noun.h"

namespace nd::cli {
namespace {

constexpr std::size_t kWidth = 100;

// Wraps `text` into lines of at most kWidth, each starting with `indent`.
std::string Wrap(const std::string& text, const std::string& indent) {
  std::string out, line = indent;
  const auto flush = [&] {
    if (line.size() > indent.size()) out += line + "\n";
    line = indent;
  };
  std::string word;
  for (const char c : text + "\n") {
    if (c != ' ' && c != '\n') {
      word += c;
      continue;
    }
    if (line.size() + 1 + word.size() > kWidth) flush();
    if (!word.empty()) line += (line.size() > indent.size() ? " " : "") + word;
    word.clear();
    if (c == '\n') flush();
  }
  return out;
}

std::vector<const Noun*> Nouns(const Context& context) {
  std::vector<const Noun*> nouns;
  for (const auto& noun : context.nouns) nouns.push_back(noun.get());
  return nouns;
}

Value ToRow(const Explanation& found) {
  Value row = Value::MakeObject();
  row.Set("name", found.name)
      .Set("kind", found.topic->kind)
      .Set("topic", found.topic->name)
      .Set("what", found.topic->what)
      .Set("text", found.topic->text);
  return row;
}

Shape TopicShape() {
  static const Topic kNone = {"", "", "", ""};
  return {"Explanation",
          "name",
          {{"NAME", "name"}, {"KIND", "kind"}, {"WHAT", "what"}, {"TEXT", "text"}},
          ToRow({&kNone, ""})};
}

// Lists every topic by kind.
std::string Overview() {
  static const std::vector<std::pair<const char*, const char*>> kKinds = {
      {"status", "statuses"},
      {"detail", "details behind a status"},
      {"state", "states of a connector"},
      {"metric", "metrics"},
      {"setting", "settings"},
      {"message", "messages"},
      {"request", "requests"}};
  std::string out;
  for (const auto& [kind, title] : kKinds) {
    std::string names;
    for (std::size_t i = 0; i < kTopicCount; ++i) {
      if (std::string(kTopics[i].kind) == kind)
        names += (names.empty() ? "" : ", ") + std::string(kTopics[i].name);
    }
    if (!names.empty()) out += std::string(title) + ":\n" + Wrap(names, "  ");
  }
  return out + "fields and columns:\n" +
         Wrap("NOUN.FIELD or NOUN.COLUMN, as in connection.tx_bytes, listener.REFUSED, status.counters",
              "  ");
}

Failure Run(Context& context, const std::string& word) {
  const bool table = context.output.format == Format::kTable || context.output.format == Format::kWide;
  if (Failure failure = CheckSelection(context, TopicShape(), {})) return failure;
  std::vector<Explanation> found;
  if (word.empty()) {
    if (table) return context.Page(Overview());
    for (std::size_t i = 0; i < kTopicCount; ++i) found.push_back({&kTopics[i], kTopics[i].name});
  } else {
    found = Explain(word, Nouns(context));
  }
  if (found.empty()) {
    const auto nearest = Nearest(word, TopicNames(Nouns(context)));
    return Error{Exit::kNotFound,
                 "nothing is known about '" + word + "'",
                 nearest ? "did you mean '" + *nearest + "'?" : "ndctl explain alone lists every topic",
                 {}};
  }
  if (!table) {
    Value::Array rows;
    for (const Explanation& one : found) rows.push_back(ToRow(one));
    return WriteRows(context, TopicShape(), {}, std::move(rows));
  }
  std::string text;
  for (const Explanation& one : found) {
    const std::string what = one.topic->what;
    std::string title = one.name + "   " + one.topic->kind + (what.empty() ? "" : ", " + what);
    if (one.name != one.topic->name) title += std::string(" (") + one.topic->name + ")";
    text += (text.empty() ? "" : "\n") + title + "\n" + Wrap(one.topic->text, "  ");
  }
  return context.Page(text);
}

}  // namespace

void AddExplain(Command root, Context& context) {
  Command app = root.Add("explain", "The meaning of a status, detail, field, column, metric or setting");
  const auto words = std::make_shared<std::vector<std::string>>();
  app.Add("TOPIC", words.get(), "CONNECTION_REFUSED, 'no listener', connection.TX, ...; without it the list");
  app.OnRun(context, [&context, words] {
    std::string word;
    for (const std::string& part : *words) word += (word.empty() ? "" : " ") + part;
    return Run(context, word);
  });
}

}  // namespace nd::cli
