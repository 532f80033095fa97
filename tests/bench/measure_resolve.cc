// SPDX-License-Identifier: Apache-2.0
// Calls of the control path: the time of one, and how many threads that share a session make a second.
#include <atomic>
#include <thread>

#include "tests/bench/measure.h"

namespace nd::perf {
namespace {

Status ResolveInTurn(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  Progress progress(options);
  for (std::uint32_t i = 0; i < Warmup(options) + options.iterations; ++i) {
    progress.Tick(i);
    const Stopwatch watch;
    if (const auto local = adapter.ResolveAddress(remote); !local.ok()) return local.status();
    if (i >= Warmup(options)) sample->latencies_us.push_back(watch.Microseconds());
  }
  return Status::Ok();
}

}  // namespace

Status ResolveActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  if (options.metric == Metric::kLatency) return ResolveInTurn(adapter, remote, options, sample);
  std::atomic<std::uint32_t> left = options.iterations, failed = 0;
  // Calls that are left when the warm-up is over. The thread that takes the first of them starts the clock.
  const std::uint32_t counted = options.iterations - Warmup(options);
  std::atomic<Stopwatch> watch;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < options.window; ++i) {
    threads.emplace_back([&] {
      for (std::uint32_t had = left; had != 0 && failed == 0;) {
        if (!left.compare_exchange_weak(had, had - 1)) continue;
        if (had == counted) watch = Stopwatch();
        if (!adapter.ResolveAddress(remote).ok()) ++failed;
        had = left;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  sample->seconds = watch.load().Microseconds() / 1e6;
  sample->operations = counted;
  return failed == 0 ? Status::Ok() : Status(StatusCode::kUnsuccessful, "a call failed");
}

}  // namespace nd::perf
