// SPDX-License-Identifier: Apache-2.0
// A child ends with its parent, so that a floor that is interrupted leaves nothing that polls.
#include "tests/bench/floors/tools.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace nd::floors {

void Die(const char* what) {
  std::perror(what);
  _exit(1);
}

long Must(long result, const char* what) {
  if (result < 0) Die(what);
  return result;
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  Must(sched_setaffinity(0, sizeof(one), &one), "cannot run on the CPU that --cpus names");
}

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

double Periods::PerSecond() const {
  constexpr std::size_t kEnough = 5;
  if (rates_.size() > kEnough) return Median({rates_.begin() + 1, rates_.end()});
  return all_ / (Now() - start_);
}

Peer::Peer(int cpu, const std::function<void()>& body) : pid_(fork()) {
  Must(pid_, "fork");
  if (pid_ != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  PinTo(cpu);
  body();
  _exit(0);
}

Peer::~Peer() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::byte* Share(std::size_t length) {
  void* memory = mmap(nullptr, length, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) Die("mmap");
  madvise(memory, length, MADV_NOHUGEPAGE);
  std::memset(memory, 0, length);
  return static_cast<std::byte*>(memory);
}

}  // namespace nd::floors
