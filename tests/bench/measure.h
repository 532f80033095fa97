// SPDX-License-Identifier: Apache-2.0
// The measurements: for each operation what the active and the passive end do.
//
// Each returns SUCCESS only if the data arrived intact. Latency is half a round trip for send and write, the
// whole operation for read, and for connect the time until both ends are known to be connected.
#pragma once

#include <algorithm>
#include <chrono>
#include <vector>

#include "nd/nd.h"
#include "tests/bench/link.h"
#include "tests/bench/options.h"

namespace nd::perf {

struct Sample {
  std::vector<double> latencies_us;
  double seconds = 0;  // Rate and bandwidth: from the first request to the last completion.
  std::uint64_t operations = 0;
};

Status SendActive(Link& link, const Options& options, Sample* sample);
Status SendPassive(Link& link, const Options& options);
Status WriteActive(Link& link, const Options& options, Sample* sample);
Status WritePassive(Link& link, const Options& options);
Status ReadActive(Link& link, const Options& options, Sample* sample);
Status ReadPassive(Link& link, const Options& options);

Status ConnectLatencyActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample);
Status ConnectLatencyPassive(Adapter& adapter, Listener& listener, const Options& options);
// From making the queue pair to the end of the disconnect, `window` at once.
Status ConnectRateActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample);
Status ConnectRatePassive(Adapter& adapter, Listener& listener, const Options& options);

class Stopwatch {
 public:
  double Microseconds() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

// Before measuring: caches, page tables and the CPU's clock settle.
inline std::uint32_t Warmup(const Options& options) {
  return std::min<std::uint32_t>(options.iterations / 10, 1000);
}

// Fills a window whose requests finish in the order of posting: where it is their number that counts, only
// the last of each group asks to be told.
class Groups {
 public:
  explicit Groups(const Options& options)
      : size_(options.metric == Metric::kRate ? std::max(1u, options.window / 8) : 1),
        most_(options.window / size_ - 1),
        last_(options.iterations - 1) {}
  // Until request number `i` fits into the window.
  Status Await(Link& link, std::uint32_t i) const {
    return i % size_ == 0 ? link.AwaitRequests(most_) : Status::Ok();
  }
  std::uint32_t Flags(std::uint32_t i) const {
    return (i + 1) % size_ == 0 || i == last_ ? 0u : std::uint32_t{kOpSilentSuccess};
  }

 private:
  const std::uint32_t size_, most_, last_;
};

Status Mismatch(std::uint64_t number);

}  // namespace nd::perf
