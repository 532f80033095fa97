// SPDX-License-Identifier: Apache-2.0
// ndctl stats: traffic by application, peer or adapter; totals first, then rates.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/nearest.h"
#include "cli/noun.h"
#include "cli/quantity.h"
#include "cli/rows.h"

namespace nd::cli {
namespace {

// The counters of one row, in display order.
const std::vector<std::pair<std::string, Show>>& Counters() {
  static const std::vector<std::pair<std::string, Show>> kCounters = {
      {"tx_bytes", Show::kBytes},         {"rx_bytes", Show::kBytes},
      {"tx_messages", Show::kCount},      {"rx_messages", Show::kCount},
      {"connects", Show::kCount},         {"accepts", Show::kCount},
      {"connect_failures", Show::kCount}, {"connection_errors", Show::kCount},
      {"errors", Show::kCount},           {"stalls", Show::kCount},
      {"tx_sends", Show::kCount},         {"rx_sends", Show::kCount},
      {"tx_writes", Show::kCount},        {"rx_writes", Show::kCount},
      {"tx_reads", Show::kCount},         {"rx_reads", Show::kCount},
      {"wakeups", Show::kCount}};
  return kCounters;
}

constexpr std::size_t kWideFrom = 10;

std::vector<double> Numbers(const v1::StatsRow& row) {
  const v1::Traffic& t = row.traffic();
  const std::uint64_t numbers[] = {t.tx_bytes(),
                                   t.rx_bytes(),
                                   t.tx_sends() + t.tx_writes() + t.tx_reads(),
                                   t.rx_sends() + t.rx_writes() + t.rx_reads(),
                                   row.connects(),
                                   row.accepts(),
                                   row.connect_failures(),
                                   row.connection_errors(),
                                   t.errors(),
                                   t.stalls(),
                                   t.tx_sends(),
                                   t.rx_sends(),
                                   t.tx_writes(),
                                   t.rx_writes(),
                                   t.tx_reads(),
                                   t.rx_reads(),
                                   t.wakeups()};
  std::vector<double> out;
  for (const std::uint64_t number : numbers) out.push_back(static_cast<double>(number));
  return out;
}

// Sums every row into one called "total".
v1::StatsRow Total(const v1::StatsReply& reply) {
  v1::StatsRow total;
  total.set_name("total");
  v1::Traffic& sum = *total.mutable_traffic();
  for (const auto& row : reply.items()) {
    const v1::Traffic& t = row.traffic();
    sum.set_tx_bytes(sum.tx_bytes() + t.tx_bytes());
    sum.set_rx_bytes(sum.rx_bytes() + t.rx_bytes());
    sum.set_tx_sends(sum.tx_sends() + t.tx_sends());
    sum.set_rx_sends(sum.rx_sends() + t.rx_sends());
    sum.set_tx_writes(sum.tx_writes() + t.tx_writes());
    sum.set_rx_writes(sum.rx_writes() + t.rx_writes());
    sum.set_tx_reads(sum.tx_reads() + t.tx_reads());
    sum.set_rx_reads(sum.rx_reads() + t.rx_reads());
    sum.set_errors(sum.errors() + t.errors());
    sum.set_stalls(sum.stalls() + t.stalls());
    sum.set_wakeups(sum.wakeups() + t.wakeups());
    total.set_connections(total.connections() + row.connections());
    total.set_connects(total.connects() + row.connects());
    total.set_accepts(total.accepts() + row.accepts());
    total.set_connect_failures(total.connect_failures() + row.connect_failures());
    total.set_connection_errors(total.connection_errors() + row.connection_errors());
  }
  return total;
}

Value RowOfStats(const v1::StatsRow& stats) {
  Value row = Value::MakeObject();
  row.Set("name", stats.name()).Set("connections", stats.connections());
  const std::vector<double> numbers = Numbers(stats);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    row.Set(Counters()[i].first, static_cast<std::uint64_t>(numbers[i]));
  }
  return row;
}

// Totals at the first reading, rates at later ones.
class Stats {
 public:
  explicit Stats(const std::string& by) : by_(by) {}

  Failure Look(Context& context, Value::Array* rows) {
    v1::StatsRequest request;
    request.set_by(by_);
    v1::StatsReply reply;
    if (Failure failure = context.admin().GetStats(request, &reply)) return failure;
    *reply.add_items() = Total(reply);
    const double seconds = reply.at_seconds() - then_;
    std::map<std::string, std::vector<double>> now;
    for (const auto& item : reply.items()) {
      Value row = RowOfStats(item);
      std::vector<double> numbers = Numbers(item);
      const auto before = before_.find(item.name());
      Value rates = Value::MakeObject();
      for (std::size_t i = 0; rated_ && i < numbers.size(); ++i) {
        // A new row starts at 0. A counter that shrank belongs to a restarted broker.
        const double old = before == before_.end() ? 0 : before->second[i];
        const bool known = seconds > 0 && numbers[i] >= old;
        rates.Set(Counters()[i].first,
                  known ? Value(std::round((numbers[i] - old) / seconds * 10) / 10) : Value());
      }
      if (rated_) row.Set("per_second", std::move(rates));
      now[item.name()] = std::move(numbers);
      rows->push_back(std::move(row));
    }
    before_ = std::move(now);
    then_ = reply.at_seconds();
    rated_ = true;
    return std::nullopt;
  }

 private:
  std::string by_;
  bool rated_ = false;
  double then_ = 0;
  std::map<std::string, std::vector<double>> before_;
};

// Rates have the same columns as totals, so that they align.
Shape StatsShape(const std::string& by, bool rates) {
  static const std::vector<std::string> kHeaders = {
      "TX",     "RX",       "TX-MSGS",  "RX-MSGS",   "CONNECT",   "ACCEPT",   "FAILED",   "BROKEN", "ERR",
      "STALLS", "TX-SENDS", "RX-SENDS", "TX-WRITES", "RX-WRITES", "TX-READS", "RX-READS", "WAKEUPS"};
  Shape shape{"Stats", "name", {}, RowOfStats({})};
  std::string header = by;
  std::transform(by.begin(), by.end(), header.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  shape.columns.push_back(
      {header + (rates ? " (PER S)" : ""), "name", Show::kText, false, When::kAlways, true});
  shape.columns.push_back({"CONNS", "connections", Show::kNumber});
  for (std::size_t i = 0; i < Counters().size(); ++i) {
    const auto& [name, show] = Counters()[i];
    shape.columns.push_back({kHeaders[i], (rates ? "per_second." : "") + name, show, i >= kWideFrom});
  }
  return shape;
}

struct WantedStats {
  std::string by = "app", interval;
  std::uint64_t count = 0;
  Selection selection;
};

Failure CheckBy(const std::string& word, std::string* by) {
  static const std::vector<std::string> kWords = {"app", "peer", "adapter"};
  if (std::find(kWords.begin(), kWords.end(), word) == kWords.end() && word != "application") {
    return Error{Exit::kUsage, "there are no statistics by '" + word + "'", Suggest(word, kWords), {}};
  }
  *by = word == "app" ? "application" : word;
  return std::nullopt;
}

// Filters apply to totals, even when rates are shown. The sum comes last and is left out when rows are
// filtered.
Failure Choose(const WantedStats& wanted, const Shape& shape, Value::Array* rows) {
  const Shape totals = StatsShape(wanted.by, false);
  Value::Array sum;
  if (wanted.selection.filters.empty() && !rows->empty()) {
    sum.push_back(std::move(rows->back()));
    rows->pop_back();
  }
  if (Failure failure = Select(totals, {wanted.selection.filters, {}}, rows)) return failure;
  if (!wanted.selection.sort.empty()) {
    const bool descending = wanted.selection.sort[0] == '-';
    Column column;
    if (Failure failure = ResolveColumn(totals, wanted.selection.sort.substr(descending ? 1 : 0), &column)) {
      return failure;
    }
    Column rate;
    const bool rated = !ResolveColumn(shape, "per_second." + column.path, &rate);
    const std::string path = rated ? rate.path : column.path;
    if (Failure failure = Select(shape, {{}, (descending ? "-" : "") + path}, rows)) return failure;
  }
  for (Value& row : sum) rows->push_back(std::move(row));
  return std::nullopt;
}

Failure WriteLook(Context& context, const WantedStats& wanted, const Shape& shape, bool stream, bool first,
                  Value::Array rows) {
  if (Failure failure = Choose(wanted, shape, &rows)) return failure;
  if (!stream) return WriteRows(context, shape, {}, std::move(rows));
  std::string text;
  if (context.output.machine()) {
    Value document = Envelope("StatsList");
    document.Set("time", TimeAgo(0)).Set("items", std::move(rows));
    text = context.output.format == Format::kYaml ? "---\n" + document.ToYaml() : document.ToJson(0) + "\n";
  } else if (Failure failure = FormatList(shape, rows, context.output, &text)) {
    return failure;
  }
  return context.Write((first || context.output.machine() ? "" : "\n") + text);
}

Failure RunStats(Context& context, const WantedStats& wanted) {
  std::string by;
  if (Failure failure = CheckBy(wanted.by, &by)) return failure;
  double seconds = 0;
  const bool repeats = !wanted.interval.empty();
  if (repeats) {
    if (Failure failure = ParseQuantity(wanted.interval, Unit::kSeconds, &seconds)) return failure;
    if (seconds < 0.1 || seconds > 86400) {
      return Error{
          Exit::kUsage, "--interval " + wanted.interval + " is not between 0.1 seconds and a day", {}, {}};
    }
  }
  if (Failure failure = CheckSelection(context, StatsShape(wanted.by, false), wanted.selection))
    return failure;
  const auto interval =
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
  Stats stats(by);
  auto next = std::chrono::steady_clock::now();
  for (std::uint64_t looks = 0; repeats ? wanted.count == 0 || looks <= wanted.count : looks < 1; ++looks) {
    if (looks > 0) std::this_thread::sleep_until(next += interval);
    Value::Array rows;
    if (Failure failure = stats.Look(context, &rows)) return failure;
    const Shape shape = StatsShape(wanted.by, looks > 0);
    if (Failure failure = WriteLook(context, wanted, shape, repeats, looks == 0, std::move(rows)))
      return failure;
  }
  return std::nullopt;
}

}  // namespace

void AddStats(Command root, Context& context) {
  Command app = root.Add("stats", "Totals since the broker started, then rates per interval");
  const auto wanted = std::make_shared<WantedStats>();
  app.Add("--by", &wanted->by, "app, peer or adapter");
  app.Add("--interval", &wanted->interval, "Then the rates of every S seconds, until interrupted");
  app.Add("--count", &wanted->count, "With --interval: end after this many intervals (0: never)");
  AddSelection(app, &wanted->selection);
  app.OnRun(context, [&context, wanted] { return RunStats(context, *wanted); });
}

}  // namespace nd::cli
