// SPDX-License-Identifier: Apache-2.0
// list and show, which work alike for every noun.
#include "cli/noun.h"

#include <chrono>
#include <cstdlib>
#include <memory>
#include <sstream>
#include <unordered_map>

#include "cli/watch.h"

namespace nd::cli {
namespace {

// Rates of counters between two readings.
class Rates {
 public:
  explicit Rates(const Noun& noun) : noun_(noun) {}

  void Apply(Value::Array* rows) {
    const auto now = std::chrono::steady_clock::now();
    const double seconds = std::chrono::duration<double>(now - then_).count();
    std::unordered_map<std::string, std::vector<double>> counts;
    for (Value& row : *rows) {
      const Value* id = row.Find(noun_.shape.id_path);
      std::vector<double>& mine = counts[id == nullptr ? std::string() : id->Text()];
      const auto old = before_.find(id == nullptr ? std::string() : id->Text());
      for (std::size_t i = 0; i < noun_.rates.size(); ++i) {
        const Value* count = row.Find(noun_.rates[i].first);
        mine.push_back(count == nullptr ? 0 : count->Number());
        const bool known = old != before_.end() && mine[i] >= old->second[i];
        row.Set(noun_.rates[i].second, known ? Value((mine[i] - old->second[i]) / seconds) : Value());
      }
    }
    before_ = std::move(counts);
    then_ = now;
  }

 private:
  const Noun& noun_;
  std::chrono::steady_clock::time_point then_;
  std::unordered_map<std::string, std::vector<double>> before_;
};

Failure ListAll(Context& context, const Noun& noun, const Selection& selection, const WatchOptions& watch) {
  context.output.live = watch.on();
  if (Failure failure = CheckSelection(context, noun.shape, selection)) return failure;
  Rates rates(noun);
  const auto take = [&](Value::Array* rows) -> Failure {
    if (Failure failure = noun.fetch(context, {}, rows)) return failure;
    if (watch.on()) rates.Apply(rows);
    return std::nullopt;
  };
  if (!watch.on()) {
    Value::Array rows;
    if (Failure failure = take(&rows)) return failure;
    return WriteRows(context, noun.shape, selection, std::move(rows));
  }
  return Watch(context, watch, [&](Snapshot* snapshot) -> Failure {
    Value::Array rows;
    if (Failure failure = take(&rows)) return failure;
    if (Failure failure = Select(noun.shape, selection, &rows)) return failure;
    if (!context.output.machine()) return ListTable(noun.shape, rows, context.output, &snapshot->table);
    snapshot->document = Envelope(noun.shape.kind + "List");
    snapshot->document.Set("items", std::move(rows));
    return std::nullopt;
  });
}

Failure FetchOne(Context& context, const Noun& noun, const std::string& id, Value::Array* rows) {
  if (Failure failure = noun.fetch(context, id, rows)) return failure;
  // The broker may match more than an exact id.
  std::erase_if(*rows, [&](const Value& row) {
    const Value* found = row.Find(noun.shape.id_path);
    return found == nullptr || found->Text() != id;
  });
  if (!rows->empty()) return std::nullopt;
  return Error{Exit::kNotFound,
               "there is no " + noun.name + " '" + id + "'",
               "ndctl " + noun.name + " list shows what there is",
               {}};
}

Failure ShowOne(Context& context, const Noun& noun, const std::string& id, const WatchOptions& watch) {
  if (watch.on()) {
    Rates rates(noun);
    return Watch(context, watch, [&](Snapshot* snapshot) -> Failure {
      Value::Array rows;
      if (Failure failure = FetchOne(context, noun, id, &rows)) return failure;
      rates.Apply(&rows);
      snapshot->table = CardTable(rows[0]);
      snapshot->headers = false;
      snapshot->document = Envelope(noun.shape.kind);
      for (const auto& [key, value] : rows[0].object()) snapshot->document.Set(key, value);
      return std::nullopt;
    });
  }
  Value::Array rows;
  if (Failure failure = FetchOne(context, noun, id, &rows)) return failure;
  std::string text;
  for (const Value& row : rows) {
    std::string part;
    if (Failure failure = FormatOne(noun.shape, row, context.output, &part)) return failure;
    text += part;
  }
  return context.Page(text);
}

Failure ActOn(Context& context, const Noun& noun, const NounVerb& verb, const std::string& id, bool dry_run) {
  if (verb.destroys != nullptr && (dry_run || context.CanAsk())) {
    Value::Array rows;
    if (Failure failure = FetchOne(context, noun, id, &rows)) return failure;
    const std::string what = verb.destroys(rows[0]);
    if (dry_run) return context.DryRun(what);
    if (Failure failure = context.Confirm(what)) return failure;
  }
  return verb.act(context, id);
}

}  // namespace

void AddSelection(Command verb, Selection* selection) {
  verb.Add("--filter", &selection->filters,
           "Only rows with FIELD=VALUE, FIELD!=VALUE (with * and ?) or FIELD>10MiB; all must hold")
      .Repeatable();
  verb.Add("--sort", &selection->sort, "Order by a column or field; -FIELD the other way round");
}

Failure CheckSelection(const Context& context, const Shape& shape, const Selection& selection) {
  Value::Array none;
  std::string text;
  if (Failure failure = Select(shape, selection, &none)) return failure;
  return FormatList(shape, none, context.output, &text);
}

Failure WriteRows(Context& context, const Shape& shape, const Selection& selection, Value::Array rows) {
  if (Failure failure = Select(shape, selection, &rows)) return failure;
  std::string text;
  if (Failure failure = FormatList(shape, rows, context.output, &text)) return failure;
  return context.Page(text);
}

void AddNounVerb(Command app, Context& context, const Noun& noun, const NounVerb& verb) {
  Command sub = app.Add(verb.name, verb.about);
  const auto ids = std::make_shared<std::vector<std::string>>();
  const auto dry_run = std::make_shared<bool>(false);
  sub.Add("ID", ids.get(), noun.id_name).Required();
  if (verb.destroys != nullptr) sub.AddFlag("--dry-run", dry_run.get(), "Only say what would be done");
  sub.OnRun(context, [&context, noun, verb, ids, dry_run] {
    Failure last;
    for (const std::string& id : *ids) {
      Failure failure = ActOn(context, noun, verb, id, *dry_run);
      if (!failure) continue;
      if (last) context.Complain(*last);
      last = failure;
    }
    return last;
  });
}

Command AddNoun(Command root, Context& context, const Noun& noun) {
  const auto shared = std::make_shared<const Noun>(noun);
  context.nouns.push_back(shared);
  Command app = root.Add(noun.name, noun.about);
  std::istringstream words(noun.aliases);
  for (std::string alias; words >> alias;) app.Alias(alias);
  app.OnRun(context, [&context, shared] { return ListAll(context, *shared, {}, {}); });

  Command list = app.Add("list", "All of them, one line each");
  list.Alias("ls");
  const auto selection = std::make_shared<Selection>();
  const auto watch = std::make_shared<WatchOptions>();
  AddSelection(list, selection.get());
  AddWatchOptions(list, watch.get());
  list.OnRun(context,
             [&context, shared, selection, watch] { return ListAll(context, *shared, *selection, *watch); });

  Command show = app.Add("show", "Everything about one of them");
  const auto id = std::make_shared<std::string>();
  const auto watch_one = std::make_shared<WatchOptions>();
  show.Add("ID", id.get(), noun.id_name).Required();
  AddWatchOptions(show, watch_one.get());
  show.OnRun(context,
             [&context, shared, id, watch_one] { return ShowOne(context, *shared, *id, *watch_one); });
  return app;
}

}  // namespace nd::cli
