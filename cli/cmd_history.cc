// SPDX-License-Identifier: Apache-2.0
// ndctl history: past connections and attempts, and why they ended.
#include <algorithm>
#include <ctime>
#include <memory>

#include "cli/commands.h"
#include "cli/history.h"
#include "cli/noun.h"
#include "cli/quantity.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

struct WantedHistory {
  std::string since, until, application, peer, adapter;
  bool failed = false;
  std::uint32_t limit = 0;
  Selection selection;
};

constexpr std::uint32_t kEverything = 1000000;  // The maximum that the broker returns.
constexpr std::size_t kUsualLimit = 1000;

bool Chooses(const WantedHistory& wanted) {
  return !wanted.selection.filters.empty() || !wanted.selection.sort.empty();
}

Failure ToRequest(const WantedHistory& wanted, v1::HistoryRequest* request) {
  const std::time_t now = std::time(nullptr);
  if (!wanted.since.empty()) {
    if (Failure failure = ParseTime(wanted.since, now, request->mutable_since())) return failure;
  }
  if (!wanted.until.empty()) {
    if (Failure failure = ParseTime(wanted.until, now, request->mutable_until())) return failure;
  }
  if (!request->since().empty() && !request->until().empty() && request->since() > request->until()) {
    return Error{Exit::kUsage, "--since " + wanted.since + " is after --until " + wanted.until, {}, {}};
  }
  request->set_application(wanted.application);
  request->set_peer(wanted.peer);
  request->set_adapter(wanted.adapter);
  request->set_failed_only(wanted.failed);
  // ndctl filters rows itself, so it must ask for more than it shows.
  request->set_limit(Chooses(wanted) ? kEverything : wanted.limit);
  return std::nullopt;
}

Failure List(Context& context, const WantedHistory& wanted) {
  const Shape shape = HistoryShape();
  if (Failure failure = CheckSelection(context, shape, wanted.selection)) return failure;
  v1::HistoryRequest request;
  if (Failure failure = ToRequest(wanted, &request)) return failure;
  v1::HistoryList list;
  if (Failure failure = context.admin().ListHistory(request, &list)) {
    if (failure->exit == Exit::kNotFound)
      failure->exit = Exit::kUsage;  // The broker refused the value of an option.
    return failure;
  }
  Value::Array rows;
  for (const auto& item : list.items()) rows.push_back(HistoryValue(item));
  if (Failure failure = Select(shape, wanted.selection, &rows)) return failure;
  const std::size_t limit = wanted.limit == 0 ? kUsualLimit : wanted.limit;
  if (list.truncated() || rows.size() > limit) {
    rows.resize(std::min(rows.size(), limit));
    std::fprintf(stderr, "ndctl: only the first %zu are shown; --limit or --until shows others\n",
                 rows.size());
  }
  return WriteRows(context, shape, {}, std::move(rows));
}

// The reason of an unusual end, for the table.
std::string Why(const v1::HistoryRow& past) {
  if (!past.detail().empty() && past.detail() != "none") return past.detail();
  return past.status() == "SUCCESS" ? std::string() : past.status();
}

}  // namespace

Value HistoryValue(const v1::HistoryRow& past) {
  const auto begin = SecondsOf(past.established().empty() ? past.started() : past.established());
  const auto end = SecondsOf(past.ended());
  Value row = Value::MakeObject();
  row.Set("id", past.id())
      .Set("outcome", past.outcome())
      .Set("role", past.passive() ? "passive" : "active")
      .Set("transport", past.transport())
      .Set("local", AddressText(past.local()))
      .Set("peer", AddressText(past.peer()))
      .Set("adapter", past.adapter())
      .Set("owner", OwnerValue(past.owner()))
      .Set("started", past.started())
      .Set("established", past.established().empty() ? Value() : Value(past.established()))
      .Set("ended", past.ended())
      .Set("lasted_seconds", begin && end ? Value(Rounded(std::max(0.0, *end - *begin))) : Value())
      .Set("status", past.status())
      .Set("detail", past.detail())
      .Set("reason", past.reason())
      .Set("why", Why(past))
      .Set("traffic", TrafficValue(past.traffic()))
      .Set("phases", PhasesValue(past.phases()));
  return row;
}

Shape HistoryShape() {
  return {"History",
          "id",
          {{"ENDED", "ended", Show::kTime},
           {"OUTCOME", "outcome", Show::kState},
           {"APP", "owner.application"},
           {"PEER", "peer"},
           {"LASTED", "lasted_seconds", Show::kShort},
           {"TX", "traffic.tx_bytes", Show::kBytes},
           {"RX", "traffic.rx_bytes", Show::kBytes},
           {"WHY", "why"},
           {"ID", "id", Show::kText, true},
           {"ROLE", "role", Show::kText, true},
           {"VIA", "transport", Show::kText, true},
           {"LOCAL", "local", Show::kText, true},
           {"ADAPTER", "adapter", Show::kText, true},
           {"PID", "owner.pid", Show::kNumber, true},
           {"UID", "owner.uid", Show::kNumber, true},
           {"UNIT", "owner.unit", Show::kText, true},
           {"STATUS", "status", Show::kText, true},
           {"REASON", "reason", Show::kText, true}},
          HistoryValue({})};
}

void AddHistory(Command root, Context& context) {
  Command app = root.Add("history", "Connections and attempts that are over, newest first, and why");
  const auto wanted = std::make_shared<WantedHistory>();
  app.Add("--since", &wanted->since, "Ended since then: 10m, 2h, 3d or 2026-11-21T10:00:00Z");
  app.Add("--until", &wanted->until, "Ended before then");
  app.Add("--app", &wanted->application, "Only of this application");
  app.Add("--peer", &wanted->peer, "Only with this peer address");
  app.Add("--adapter", &wanted->adapter, "Only of this adapter");
  app.AddFlag("--failed", &wanted->failed, "Only attempts that failed and connections that broke");
  app.Add("--limit", &wanted->limit, "At most this many (0: 1000)");
  AddSelection(app, &wanted->selection);
  app.OnRun(context, [&context, wanted] { return List(context, *wanted); });
}

}  // namespace nd::cli
