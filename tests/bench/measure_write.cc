// SPDX-License-Identifier: Apache-2.0
// Writes: for latency both ends write in turn and watch their memory; for rate and bandwidth one end writes
// and the other sleeps until the end.
#include "tests/bench/measure.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

// Waits until the Write of that number is in memory. Polling moves data where the transport needs it.
Status AwaitMemory(Link& link, const Options& options, std::uint64_t number) {
  Patience patience;
  const std::byte* memory = link.exposed(0);
  while (!HasStamp(memory, options.size, number)) {
    if (Status status = link.Poll(); !status.ok()) return status;
    if (patience.Ended()) {
      return {StatusCode::kIoTimeout, "the other end's write did not arrive within 30 seconds"};
    }
  }
  // The last byte does not prove the bytes before it: the bytes of one message may be written in any order.
  while (IsExamined(number) && !IsWhole(memory, options.size, number)) {
    if (patience.Ended()) return Mismatch(number);
  }
  return Status::Ok();
}

Status Put(Link& link, const Options& options, std::uint64_t number) {
  if (Status status = link.AwaitRequests(0); !status.ok()) return status;
  Stamp(link.slot(0), options.size, number);
  return link.Write(0, 0);
}

Status InTurns(Link& link, const Options& options, bool first, Sample* sample) {
  const std::uint32_t warmup = Warmup(options);
  Progress progress(options);
  LatencyClock clock(options, 2, sample);
  for (std::uint32_t i = 0; i < warmup + options.iterations; ++i) {
    progress.Tick(i);
    if (!first) {
      if (Status status = AwaitMemory(link, options, i + 1); !status.ok()) return status;
    }
    clock.Begin(i);
    if (Status status = Put(link, options, i + 1); !status.ok()) return status;
    if (!first) continue;
    if (Status status = AwaitMemory(link, options, i + 1); !status.ok()) return status;
    clock.End(i);
  }
  return link.AwaitRequests(0);
}

}  // namespace

Status WriteActive(Link& link, const Options& options, Sample* sample) {
  if (options.metric == Metric::kLatency) {
    if (Status status = InTurns(link, options, true, sample); !status.ok()) return status;
    return link.SayDone();
  }
  const Groups groups(options);
  Meter meter(options, sample);
  for (std::uint32_t i = 0; i < options.iterations; ++i) {
    if (Status status = groups.Await(link, i); !status.ok()) return status;
    if (groups.Starts(i)) meter.Tick(i);
    const std::uint32_t slot = i % options.window;
    Stamp(link.slot(slot), options.size, i + 1);
    if (Status status = link.Write(slot, slot, groups.Flags(i)); !status.ok()) return status;
  }
  if (Status status = link.AwaitRequests(0); !status.ok()) return status;
  meter.End(options.iterations);
  return link.SayDone();
}

Status WritePassive(Link& link, const Options& options) {
  if (options.metric == Metric::kLatency) {
    if (Status status = InTurns(link, options, false, nullptr); !status.ok()) return status;
  }
  if (options.metric != Metric::kLatency) link.LeaveItToTheDevice();
  // A message after Writes is delivered after them.
  if (const auto done = link.NextMessage(); !done.ok()) return done.status();
  bool well = true;
  std::uint64_t wrong = 0;
  if (options.metric != Metric::kLatency) {
    for (std::uint32_t i = 0; i < std::min(options.window, options.iterations); ++i) {
      // The number of the last Write to this slot.
      const std::uint64_t number =
          i + 1 + (options.iterations - 1 - i) / options.window * std::uint64_t{options.window};
      if (!IsWhole(link.exposed(i), options.size, number)) {
        well = false;
        wrong = number;
      }
    }
  }
  if (Status status = link.SendVerdict(well); !status.ok()) return status;
  return well ? Status::Ok() : Mismatch(wrong);
}

}  // namespace nd::perf
