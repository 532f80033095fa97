// SPDX-License-Identifier: Apache-2.0
// ndctl ping ADDRESS: makes one connection, sends some echoes, and prints their times.
#include <cmath>

#include "cli/ping.h"
#include "cli/probe.h"

namespace nd::cli {
namespace {

double InMicroseconds(double seconds) {
  return std::round(seconds * 1e7) / 10;
}

}  // namespace

Failure PingPeer(Context& context, const PingOptions& options) {
  Probe probe(context, {options.address, options.adapter, "ndctl-ping", options.size});
  if (Failure failure = probe.Open()) return failure;
  if (Failure failure = probe.Connect()) return failure;
  std::vector<double> round_trips;
  if (probe.echoes()) {
    if (Failure failure = probe.Echo(options.count, &round_trips)) return failure;
  }
  probe.Disconnect();
  Value phases = Value::MakeObject();
  double total = 0;
  for (const Probe::Phase& phase : probe.phases()) {
    phases.Set(phase.name + "_us", InMicroseconds(phase.seconds));
    total += phase.seconds;
  }
  Value row = Value::MakeObject();
  row.Set("target", probe.remote().ToString())
      .Set("local", probe.local().ToString())
      .Set("adapter", probe.adapter())
      .Set("result", "connected")
      .Set("phases", phases)
      .Set("total_us", InMicroseconds(total))
      .Set("echo", probe.echoes() ? Statistics(round_trips) : Value());
  const Shape shape{"Ping",
                    "target",
                    {{"TARGET", "target"}, {"RESULT", "result"}, {"TOTAL-US", "total_us", Show::kNumber}},
                    row};
  return context.WriteOne(shape, row);
}

}  // namespace nd::cli
