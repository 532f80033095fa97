// SPDX-License-Identifier: Apache-2.0
// ndctl ping: without an address the broker's own answer time, with one a real connection to it.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <numeric>

#include "cli/commands.h"
#include "cli/noun.h"
#include "cli/ping.h"

namespace nd::cli {
namespace {

Failure PingBroker(Context& context, std::uint32_t count) {
  std::vector<double> times;
  for (std::uint32_t i = 0; i < count; ++i) {
    ndbroker::v1::BrokerStatus status;
    // The first call includes connecting; it is told apart by connecting before.
    if (Failure failure = context.admin().Connect()) return failure;
    const auto start = std::chrono::steady_clock::now();
    if (Failure failure =
            context.admin().Call(&AdminClient::Stub::GetStatus, ndbroker::v1::GetStatusRequest(), &status)) {
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

void AddPing(CLI::App& root, Context& context) {
  CLI::App* app =
      root.add_subcommand("ping", "The broker's answer time; with ADDRESS a real connection to it");
  app->fallthrough();
  const auto options = std::make_shared<PingOptions>();
  const auto serve = std::make_shared<bool>(false);
  app->add_option("ADDRESS", options->address,
                  "IP:PORT of a listener; without it the broker itself is asked");
  CLI::Option* count =
      app->add_option("-c,--count", options->count, "Round trips; with --serve connections (0: no end)");
  app->add_option("--size", options->size, "Bytes of each echoed message")
      ->check(CLI::Range(8U, kMaxPingSize));
  app->add_option("--adapter", options->adapter, "Adapter to use (default: the first)");
  app->add_flag("--serve", *serve, "Listen on ADDRESS and answer other pings");
  app->callback([&context, options, serve, count] {
    const bool count_given = count->count() > 0;
    context.run = [&context, options, serve, count_given] {
      return Run(context, *options, *serve, count_given);
    };
  });
}

}  // namespace nd::cli
