// SPDX-License-Identifier: Apache-2.0
// Reads: the active end reads memory that the passive end has prepared. The passive end sleeps.
#include <cstring>

#include "tests/bench/measure.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

std::uint64_t NumberOf(std::uint32_t slot) {
  return 0x5EED0000ULL + slot;
}

}  // namespace

Status ReadActive(Link& link, const Options& options, Sample* sample) {
  // The passive end reports that its memory is ready.
  const auto ready = link.NextMessage();
  if (!ready.ok()) return ready.status();
  if (Status status = link.Repost(*ready); !status.ok()) return status;
  const bool latency = options.metric == Metric::kLatency;
  const std::uint32_t warmup = latency ? Warmup(options) : 0;
  const std::uint32_t total = warmup + options.iterations;
  const auto check = [&](std::uint32_t slot, bool whole) {
    const std::byte* data = link.slot(slot);
    const bool well =
        whole ? IsWhole(data, options.size, NumberOf(slot)) : HasStamp(data, options.size, NumberOf(slot));
    Stamp(link.slot(slot), options.size, 0);  // The data of the last Read must not pass for that of the next.
    return well;
  };
  for (std::uint32_t slot = 0; slot < options.window; ++slot) std::memset(link.slot(slot), 0, options.size);
  Meter meter(options, sample);
  LatencyClock clock(options, 1, sample);
  for (std::uint32_t i = 0; i < total; ++i) {
    const std::uint32_t slot = i % options.window;
    if (Status status = link.AwaitRequests(options.window - 1); !status.ok()) return status;
    meter.Tick(i);
    if (i >= options.window && !check(slot, IsExamined(i + 1))) return Mismatch(i - options.window + 1);
    clock.Begin(i);
    if (Status status = link.Read(slot, slot); !status.ok()) return status;
    if (!latency) continue;
    if (Status status = link.AwaitRequests(0); !status.ok()) return status;
    clock.End(i);
  }
  if (Status status = link.AwaitRequests(0); !status.ok()) return status;
  meter.End(total);
  for (std::uint32_t slot = 0; slot < std::min(options.window, total); ++slot) {
    if (!check(slot, true)) return Mismatch(total);
  }
  return link.SayDone();
}

Status ReadPassive(Link& link, const Options& options) {
  for (std::uint32_t slot = 0; slot < options.window; ++slot) {
    FillPattern(link.exposed(slot), options.size);
    Stamp(link.exposed(slot), options.size, NumberOf(slot));
  }
  if (Status status = link.Send(0, 1); !status.ok()) return status;
  link.LeaveItToTheDevice();
  if (const auto done = link.NextMessage(); !done.ok()) return done.status();
  if (Status status = link.AwaitRequests(0); !status.ok()) return status;
  return link.SendVerdict(true);
}

}  // namespace nd::perf
