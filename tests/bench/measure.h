// SPDX-License-Identifier: Apache-2.0
// The measurements: the active and the passive end of each operation.
//
// Each returns SUCCESS only if the data arrived intact. Latency is half a round trip for send and write, the
// whole operation for read, and for connect the time until both ends have confirmed the connection.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "nd/nd.h"
#include "tests/bench/link.h"
#include "tests/bench/options.h"

namespace nd::perf {

// The results of the active end, without the warm-up.
struct Sample {
  std::vector<double> latencies_us;
  double seconds = 0;  // Rate and bandwidth: from the first request to the last completion.
  std::uint64_t operations = 0;
  std::vector<double> window_rates;  // Operations a second in periods of 5 ms, see Meter.
};

Status SendActive(Link& link, const Options& options, Sample* sample);
Status SendPassive(Link& link, const Options& options);
Status WriteActive(Link& link, const Options& options, Sample* sample);
Status WritePassive(Link& link, const Options& options);
Status ReadActive(Link& link, const Options& options, Sample* sample);
Status ReadPassive(Link& link, const Options& options);

Status ConnectLatencyActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample);
Status ConnectLatencyPassive(Adapter& adapter, Listener& listener, const Options& options);
// From the creation of the queue pair to the end of the disconnect, `window` connections at once.
Status ConnectRateActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample);
Status ConnectRatePassive(Adapter& adapter, Listener& listener, const Options& options);
// ResolveAddress, the smallest call of the control path: one after the other, or `window` threads at once.
Status ResolveActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample);

class Stopwatch {
 public:
  double Microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// The iterations before the measurement, which warm caches, page tables and the clock of the CPU.
inline std::uint32_t Warmup(const Options& options) {
  return options.warmup.value_or(0);
}

// Measures latencies: each message alone, or a batch of messages, of which the mean counts. Reading the clock
// takes as long as a tenth of the shortest messages.
class LatencyClock {
 public:
  // A latency is the time between Begin() and End() divided by `parts`: 2 for half a round trip.
  LatencyClock(const Options& options, double parts, Sample* sample)
      : warmup_(Warmup(options)), batch_(options.batch), parts_(parts * options.batch), sample_(sample) {}
  void Begin(std::uint32_t i) {
    if (i < warmup_ || (i - warmup_) % batch_ == 0) watch_ = Stopwatch();
  }
  void End(std::uint32_t i) {
    if (i >= warmup_ && (i - warmup_) % batch_ == batch_ - 1) {
      sample_->latencies_us.push_back(watch_.Microseconds() / parts_);
    }
  }

 private:
  const std::uint32_t warmup_, batch_;
  const double parts_;
  Sample* const sample_;
  Stopwatch watch_;
};

// Tells the parent once a second how far the client is, if the parent asked for it.
class Progress {
 public:
  explicit Progress(const Options& options) : options_(options) {}
  void Tick(std::uint64_t done) {
    if (options_.progress && done % kEvery == 0 && watch_.Microseconds() > 1e6) Report(done);
  }

 private:
  static constexpr std::uint64_t kEvery = 256;
  void Report(std::uint64_t done);

  const Options& options_;
  Stopwatch watch_;
};

// Measures the rate of completed requests: over the whole run, and in short periods, whose median does not
// suffer from a moment without the CPU.
class Meter {
 public:
  Meter(const Options& options, Sample* sample)
      : warmup_(options.metric == Metric::kLatency ? 0 : Warmup(options)),
        sample_(sample),
        progress_(options) {}
  // `posted` requests have been posted, and all but a window of them are done.
  void Tick(std::uint32_t posted) {
    progress_.Tick(posted);
    if (posted <= warmup_) {
      whole_ = period_ = Stopwatch();
      counted_from_ = start_ = posted;
      return;
    }
    if (++ticks_ % kTicksBetweenLooks != 0) return;
    const double microseconds = period_.Microseconds();
    if (microseconds < kPeriodUs) return;
    sample_->window_rates.push_back((posted - start_) / microseconds * 1e6);
    start_ = posted;
    period_ = Stopwatch();
  }
  void End(std::uint32_t total) {
    sample_->seconds = whole_.Microseconds() / 1e6;
    sample_->operations = total - counted_from_;
  }

 private:
  static constexpr double kPeriodUs = 5000;
  // To read the clock takes as long as a short Write.
  static constexpr std::uint32_t kTicksBetweenLooks = 16;
  const std::uint32_t warmup_;
  Sample* const sample_;
  Progress progress_;
  Stopwatch whole_, period_;
  std::uint32_t ticks_ = 0;         // Since the warm-up.
  std::uint32_t start_ = 0;         // Of the current period.
  std::uint32_t counted_from_ = 0;  // The last tick of the warm-up.
};

// Fills a window of requests that finish in order of posting. When only their number matters, only the last
// one of each group is signalled.
class Groups {
 public:
  explicit Groups(const Options& options)
      : size_(options.metric == Metric::kRate ? std::max(1u, options.window / 8) : 1),
        most_(options.window / size_ - 1),
        last_(options.iterations - 1) {}
  // Waits until request number `i` fits into the window.
  Status Await(Link& link, std::uint32_t i) const {
    return i % size_ == 0 ? link.AwaitRequests(most_) : Status::Ok();
  }
  bool Starts(std::uint32_t i) const { return i % size_ == 0; }
  std::uint32_t Flags(std::uint32_t i) const {
    return (i + 1) % size_ == 0 || i == last_ ? 0u : std::uint32_t{kOpSilentSuccess};
  }

 private:
  const std::uint32_t size_, most_, last_;
};

Status Mismatch(std::uint64_t number);

}  // namespace nd::perf
