// SPDX-License-Identifier: Apache-2.0
// ndctl events: past and present events, one line each.
#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/events.h"
#include "cli/noun.h"
#include "cli/quantity.h"

namespace nd::cli {
namespace {

struct Wanted {
  Selection selection;
  std::vector<std::string> types;
  std::string since;
  bool follow = false;
  std::uint64_t count = 0;
};

// One of the type patterns must match, and all filters.
Failure Keep(const Shape& shape, const Wanted& wanted, Value::Array* rows) {
  if (Failure failure = Select(shape, wanted.selection, rows)) return failure;
  if (wanted.types.empty()) return std::nullopt;
  Value::Array kept;
  for (const std::string& type : wanted.types) {
    Value::Array matching = *rows;
    if (Failure failure = Select(shape, {{"type=" + type}, {}}, &matching)) return failure;
    if (kept.empty()) kept = std::move(matching);
  }
  *rows = std::move(kept);
  return std::nullopt;
}

Failure Run(Context& context, const Wanted& wanted) {
  const Shape shape = EventShape();
  if (Failure failure = CheckSelection(context, shape, wanted.selection)) return failure;
  v1::WatchRequest request;
  if (!wanted.since.empty()) {
    if (Failure failure = ParseTime(wanted.since, std::time(nullptr), request.mutable_since()))
      return failure;
    request.set_past_only(!wanted.follow);
  }
  std::uint64_t shown = 0;
  bool enough = false;
  Failure wrong;
  const auto take = [&](const v1::WatchEvent& event) {
    // A gap is never filtered away: an event that is missing might have matched.
    if (event.lost() > 0 && !context.output.machine()) {
      std::fprintf(stderr, "ndctl: %llu events were lost here, this reader was too slow\n",
                   static_cast<unsigned long long>(event.lost()));
    }
    Value::Array rows = {EventValue(event)};
    if ((wrong = Keep(shape, wanted, &rows))) return false;
    if (rows.empty()) return true;
    std::string text;
    if ((wrong = FormatLine(shape, rows[0], context.output, &text))) return false;
    if ((wrong = context.Write(text))) return false;
    enough = wanted.count != 0 && ++shown == wanted.count;
    return !enough;
  };
  AdminClient& admin = context.admin();
  if (Failure failure = admin.Watch(request, std::nullopt, take)) return failure;
  if (wrong) return wrong;
  if (enough || request.past_only()) return std::nullopt;
  return Error{Exit::kUnreachable, "the broker in " + admin.directory() + " ended", {}, {}};
}

}  // namespace

Value EventValue(const v1::WatchEvent& event) {
  Value row = Value::MakeObject();
  row.Set("time", event.time())
      .Set("type", event.type())
      .Set("object", event.object())
      .Set("message", event.message())
      .Set("lost", static_cast<std::uint64_t>(event.lost()));
  return row;
}

Shape EventShape() {
  return {"Event",
          "object",
          {{"TIME", "time"},
           {"TYPE", "type"},
           {"OBJECT", "object"},
           {"MESSAGE", "message"},
           {"LOST", "lost", Show::kNumber, true}},
          EventValue({})};
}

void AddEvents(Command root, Context& context) {
  Command app = root.Add(
      "events", "Every change from now on, until interrupted; with --since what happened, then the end");
  const auto wanted = std::make_shared<Wanted>();
  app.Add("--since", &wanted->since,
          "Begin with remembered events since then: 10m, 2h or 2026-11-21T10:00:00Z");
  app.AddFlag("-f,--follow", &wanted->follow, "Go on after that (without --since always so)");
  app.Add("--type", &wanted->types, "Only events of this type, with * and ?: 'connection.*'; repeatable")
      .Repeatable();
  app.Add("--filter", &wanted->selection.filters,
          "Only events with FIELD=VALUE or FIELD!=VALUE; VALUE may hold * and ?")
      .Repeatable();
  app.Add("--count", &wanted->count, "End after this many events (0: never)");
  app.OnRun(context, [&context, wanted] { return Run(context, *wanted); });
}

}  // namespace nd::cli
