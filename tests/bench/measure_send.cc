// SPDX-License-Identifier: Apache-2.0
// Sends: ping-pong for latency, a full window for rate and bandwidth.
#include <string>

#include "tests/bench/measure.h"
#include "tests/bench/stamp.h"

namespace nd::perf {

Status Mismatch(std::uint64_t number) {
  return {StatusCode::kDataOverrun, "message " + std::to_string(number) + " is not what was sent"};
}

namespace {

Status PingPong(Link& link, const Options& options, Sample* sample) {
  const std::uint32_t warmup = Warmup(options);
  Progress progress(options);
  LatencyClock clock(options, 2, sample);
  for (std::uint32_t i = 0; i < warmup + options.iterations; ++i) {
    progress.Tick(i);
    Stamp(link.slot(0), options.size, i + 1);
    clock.Begin(i);
    if (Status status = link.Send(0, options.size, kOpSilentSuccess); !status.ok()) return status;
    const auto message = link.NextMessage();
    if (!message.ok()) return message.status();
    clock.End(i);
    if (!HasStamp(*message, options.size, i + 1)) return Mismatch(i + 1);
    if (IsExamined(i + 1) && !IsWhole(*message, options.size, i + 1)) return Mismatch(i + 1);
    if (Status status = link.Repost(*message); !status.ok()) return status;
  }
  return link.AwaitVerdict();
}

Status Stream(Link& link, const Options& options, Sample* sample) {
  const Groups groups(options);
  Meter meter(options, sample);
  for (std::uint32_t i = 0; i < options.iterations; ++i) {
    if (Status status = groups.Await(link, i); !status.ok()) return status;
    if (groups.Starts(i)) meter.Tick(i);
    const std::uint32_t slot = i % options.window;
    Stamp(link.slot(slot), options.size, i + 1);
    if (Status status = link.Send(slot, options.size, groups.Flags(i)); !status.ok()) return status;
  }
  // The passive end sends a message when it has received everything, which ends the measurement.
  Status verdict = link.AwaitVerdict();
  meter.End(options.iterations);
  return verdict;
}

}  // namespace

Status SendActive(Link& link, const Options& options, Sample* sample) {
  return options.metric == Metric::kLatency ? PingPong(link, options, sample) : Stream(link, options, sample);
}

Status SendPassive(Link& link, const Options& options) {
  const bool echo = options.metric == Metric::kLatency;
  const std::uint32_t total = options.iterations + (echo ? Warmup(options) : 0);
  bool well = true;
  std::uint64_t read_bytes = 0;
  for (std::uint32_t i = 0; i < total; ++i) {
    const auto message = link.NextMessage();
    if (!message.ok()) return message.status();
    well = well && HasStamp(*message, options.size, i + 1);
    if (options.touch) read_bytes += ReadAll(*message, options.size);
    if (IsExamined(i + 1)) well = well && IsWhole(*message, options.size, i + 1);
    if (echo) {
      Stamp(link.slot(0), options.size, i + 1);
      // The last message has no answer, and its slot is written again.
      const std::uint32_t flags = i + 1 == total ? 0u : kOpSilentSuccess;
      if (Status status = link.Send(0, options.size, flags); !status.ok()) return status;
    }
    if (Status status = link.Repost(*message); !status.ok()) return status;
  }
  // The sum of the bytes is only needed so that they are read.
  [[maybe_unused]] volatile std::uint64_t used = read_bytes;
  if (Status status = link.AwaitRequests(0); !status.ok()) return status;
  if (Status status = link.SendVerdict(well); !status.ok()) return status;
  return well ? Status::Ok() : Mismatch(0);
}

}  // namespace nd::perf
