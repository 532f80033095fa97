// SPDX-License-Identifier: Apache-2.0
// ndctl events: what happened and what happens, one line each.
#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/events.h"
#include "cli/noun.h"
#include "cli/quantity.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

struct Wanted {
  Selection selection;
  std::vector<std::string> types;
  std::string since;
  bool follow = false;
  std::uint64_t count = 0;
};

// One of several type patterns is enough, while all filters must hold.
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
  AdminClient& admin = context.admin();
  if (Failure failure = admin.Connect()) return failure;
  grpc::ClientContext call;
  const auto reader = admin.stub().Watch(&call, request);
  v1::WatchEvent event;
  std::uint64_t shown = 0;
  const auto abandon = [&](Failure failure) {
    call.TryCancel();
    while (reader->Read(&event)) {
    }
    const grpc::Status ignored = reader->Finish();  // CANCELLED, by us.
    return failure;
  };
  while (reader->Read(&event)) {
    // A gap is never filtered away: what is missing might have matched.
    if (event.lost() > 0 && !context.output.machine()) {
      std::fprintf(stderr, "ndctl: %llu events were lost here, this reader was too slow\n",
                   static_cast<unsigned long long>(event.lost()));
    }
    Value::Array rows = {EventValue(event)};
    if (Failure failure = Keep(shape, wanted, &rows)) return abandon(failure);
    if (rows.empty()) continue;
    std::string text;
    if (Failure failure = FormatLine(shape, rows[0], context.output, &text)) return abandon(failure);
    if (Failure failure = context.Write(text)) return abandon(failure);
    if (wanted.count != 0 && ++shown == wanted.count) return abandon(std::nullopt);
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return admin.FromGrpc(status);
  if (request.past_only()) return std::nullopt;
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

void AddEvents(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand(
      "events", "Every change from now on, until interrupted; with --since what happened, then the end");
  app->fallthrough();
  const auto wanted = std::make_shared<Wanted>();
  app->add_option("--since", wanted->since,
                  "What the broker remembers since then: 10m, 2h or 2026-11-21T10:00:00Z");
  app->add_flag("-f,--follow", wanted->follow, "Go on after that (without --since always so)");
  app->add_option("--type", wanted->types,
                  "Only events of this type, with * and ?: 'connection.*'; repeatable")
      ->expected(1)
      ->take_all();
  app->add_option("--filter", wanted->selection.filters,
                  "Only events with FIELD=VALUE or FIELD!=VALUE; VALUE may hold * and ?")
      ->expected(1)
      ->take_all();
  app->add_option("--count", wanted->count, "End after this many events (0: never)");
  app->callback([&context, wanted] { context.run = [&context, wanted] { return Run(context, *wanted); }; });
}

}  // namespace nd::cli
