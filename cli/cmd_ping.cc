// SPDX-License-Identifier: Apache-2.0
// ndctl ping: without an address the response time of the broker, with an address a real connection to it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/ping.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

Failure PingBroker(Context& context, std::uint32_t count) {
  std::vector<double> times;
  for (std::uint32_t i = 0; i < count; ++i) {
    ndbroker::v1::BrokerStatus status;
    // Connects first, so that the first call does not include it.
    if (Failure failure = context.admin().Connect()) return failure;
    const auto start = std::chrono::steady_clock::now();
    if (Failure failure = context.admin().GetStatus(ndbroker::v1::GetStatusRequest(), &status)) {
      return failure;
    }
    times.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  Value row = Value::MakeObject();
  row.Set("target", context.admin().directory()).Set("round_trip", Statistics(times));
  const Shape shape{"BrokerPing",
                    "target",
                    {{"TARGET", "target"},
                     {"COUNT", "round_trip.count", Show::kNumber},
                     {"MIN-US", "round_trip.min_us", Show::kNumber},
                     {"AVG-US", "round_trip.avg_us", Show::kNumber},
                     {"MAX-US", "round_trip.max_us", Show::kNumber}},
                    row};
  std::string text;
  if (Failure failure = FormatOne(shape, row, context.output, &text)) return failure;
  return context.Write(text);
}

Failure Run(Context& context, PingOptions options, bool serve, bool count_given) {
  if (serve && options.address.empty()) {
    return Error{
        Exit::kUsage, "--serve needs the address to listen on", "ndctl ping --serve 10.0.0.1:7000", {}};
  }
  if (serve) {
    if (!count_given) options.count = 0;
    return ServePings(context, options);
  }
  if (options.count == 0) return Error{Exit::kUsage, "--count must be at least 1", {}, {}};
  return options.address.empty() ? PingBroker(context, options.count) : PingPeer(context, options);
}

}  // namespace

Value Statistics(const std::vector<double>& microseconds) {
  const auto rounded = [](double value) { return std::round(value * 10) / 10; };
  Value out = Value::MakeObject();
  out.Set("count", microseconds.size());
  if (microseconds.empty()) return out;
  const auto [min, max] = std::minmax_element(microseconds.begin(), microseconds.end());
  const double sum = std::accumulate(microseconds.begin(), microseconds.end(), 0.0);
  out.Set("min_us", rounded(*min))
      .Set("avg_us", rounded(sum / static_cast<double>(microseconds.size())))
      .Set("max_us", rounded(*max));
  return out;
}

void AddPing(Command root, Context& context) {
  Command app = root.Add("ping", "The broker's answer time; with ADDRESS a real connection to it");
  const auto options = std::make_shared<PingOptions>();
  const auto serve = std::make_shared<bool>(false);
  app.Add("ADDRESS", &options->address, "IP:PORT of a listener; without it the broker itself is asked");
  const Option count =
      app.Add("-c,--count", &options->count, "Round trips; with --serve connections (0: no end)");
  app.Add("--size", &options->size, "Bytes of each echoed message").Within(8, kMaxPingSize);
  app.Add("--adapter", &options->adapter, "Adapter to use (default: the first)");
  app.AddFlag("--serve", serve.get(), "Listen on ADDRESS and answer other pings");
  app.OnRun(context,
            [&context, options, serve, count] { return Run(context, *options, *serve, count.given()); });
}

}  // namespace nd::cli
