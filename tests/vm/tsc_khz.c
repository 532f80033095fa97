// SPDX-License-Identifier: Apache-2.0
// Prints how many thousand ticks per second this host's time stamp counter makes. An emulated machine that
// measures it itself, on a busy host, gets a clock that runs several times too fast.
#include <stdint.h>
#include <stdio.h>
#include <time.h>
#include <x86intrin.h>

static double Now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

int main(void) {
  const double from = Now();
  const uint64_t ticks = __rdtsc();
  const struct timespec wait = {0, 200000000};
  nanosleep(&wait, NULL);
  const uint64_t passed = __rdtsc() - ticks;
  printf("%.0f\n", (double)passed / (Now() - from));
  return 0;
}
