// SPDX-License-Identifier: Apache-2.0
// ndctl events: every change from now on, one line each, until interrupted.
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"

namespace nd::cli {
namespace {

namespace v1 = ndbroker::v1;

Value ToRow(const v1::WatchEvent& event) {
  Value row = Value::MakeObject();
  row.Set("time", event.time())
      .Set("type", event.type())
      .Set("object", event.object())
      .Set("message", event.message())
      .Set("lost", event.lost());
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
          ToRow({})};
}

Failure Watch(Context& context, const Selection& selection, std::uint64_t count) {
  const Shape shape = EventShape();
  Value::Array none;
  if (Failure failure = Select(shape, selection, &none)) return failure;
  std::string text;
  if (Failure failure = FormatList(shape, none, context.output, &text)) return failure;
  AdminClient& admin = context.admin();
  if (Failure failure = admin.Connect()) return failure;
  grpc::ClientContext call;
  const auto reader = admin.stub().Watch(&call, v1::WatchRequest());
  v1::WatchEvent event;
  std::uint64_t shown = 0;
  while (reader->Read(&event)) {
    // A gap is never filtered away: what is missing might have matched.
    if (event.lost() > 0 && !context.output.machine()) {
      std::fprintf(stderr, "ndctl: %llu events were lost here, this reader was too slow\n",
                   static_cast<unsigned long long>(event.lost()));
    }
    Value::Array rows = {ToRow(event)};
    if (Failure failure = Select(shape, selection, &rows)) return failure;
    if (rows.empty()) continue;
    if (Failure failure = FormatLine(shape, rows[0], context.output, &text)) return failure;
    if (Failure failure = context.Write(text)) return failure;
    if (count != 0 && ++shown == count) {
      call.TryCancel();
      while (reader->Read(&event)) {
      }
      const grpc::Status ignored = reader->Finish();  // CANCELLED, by us.
      return std::nullopt;
    }
  }
  const grpc::Status status = reader->Finish();
  if (status.ok()) return Error{Exit::kUnreachable, "the broker in " + admin.directory() + " ended", {}, {}};
  return admin.FromGrpc(status);
}

}  // namespace

void AddEvents(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("events", "Every change from now on, one line each, until interrupted");
  app->fallthrough();
  const auto selection = std::make_shared<Selection>();
  const auto count = std::make_shared<std::uint64_t>(0);
  app->add_option("--filter", selection->filters,
                  "Only events with FIELD=VALUE or FIELD!=VALUE; VALUE may hold * and ?")
      ->expected(1)
      ->take_all();
  app->add_option("--count", *count, "End after this many events (0: never)");
  app->callback([&context, selection, count] {
    context.run = [&context, selection, count] { return Watch(context, *selection, *count); };
  });
}

}  // namespace nd::cli
