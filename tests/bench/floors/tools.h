// SPDX-License-Identifier: Apache-2.0
// The parts that the floors share: a clock, medians, a child process on another CPU, and shared memory.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <vector>

#include "tests/bench/floors/floor.h"

namespace nd::floors {

// Ends the process with the reason and the error of the last system call.
[[noreturn]] void Die(const char* what);
// Returns `result` if it is not negative, and dies otherwise.
long Must(long result, const char* what);

double Now();  // In seconds.
void PinTo(int cpu);
double Median(std::vector<double> values);  // `values` is not empty.

// Runs `body` in a child that is pinned to `cpu` and ends with this process. The destructor ends it.
class Peer {
 public:
  Peer(int cpu, const std::function<void()>& body);
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer();
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_;
};

// Memory of zeroes in pages of 4 KiB, all of them mapped here. Children share it. Never unmapped.
std::byte* Share(std::size_t length);
template <typename T>
T& Share() {
  return *new (Share(sizeof(T))) T;
}

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Calls `one` in batches until the time of the plan is over. Returns the median of the batches' means in
// seconds; the first batch warms up.
template <typename One>
double MedianOfBatches(const Plan& plan, int batch, One one) {
  std::vector<double> means;
  const double end = Now() + plan.seconds;
  for (bool warm = false;; warm = true) {
    const double begin = Now();
    for (int i = 0; i < batch; ++i) one();
    const double now = Now();
    if (warm) means.push_back((now - begin) / batch);
    if (now > end && !means.empty()) return Median(std::move(means));
  }
}

// Counts in periods of 5 ms, so that a moment without the CPU does not count.
class Periods {
 public:
  void Add(double amount) {
    sum_ += amount;
    all_ += amount;
    const double now = Now();
    if (now - begin_ < 0.005) return;
    rates_.push_back(sum_ / (now - begin_));
    sum_ = 0;
    begin_ = now;
  }
  // The median of the amounts per second, without the first period, which warms up. Few periods count as a
  // whole.
  double PerSecond() const;

 private:
  double sum_ = 0, all_ = 0, begin_ = Now(), start_ = begin_;
  std::vector<double> rates_;
};

}  // namespace nd::floors
