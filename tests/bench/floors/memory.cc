// SPDX-License-Identifier: Apache-2.0
// Two processes that poll memory which they share.
#include <algorithm>
#include <cstring>

#include "tests/bench/floors/floor.h"
#include "tests/bench/floors/tools.h"
#include "tests/bench/stamp.h"

namespace nd::floors {
namespace {

constexpr int kBatch = 100;
constexpr std::uint64_t kStop = ~std::uint64_t{0};

struct alignas(64) Line {
  std::atomic<std::uint64_t> number{0};
};
// Lines far enough apart that the prefetcher does not fetch both.
struct alignas(4096) Lines {
  Line there;
  alignas(4096) Line back;
};

// Waits for that number, or for the end.
std::uint64_t Await(const std::atomic<std::uint64_t>& number, std::uint64_t wanted) {
  for (;;) {
    const std::uint64_t value = number.load(std::memory_order_acquire);
    if (value == wanted || value == kStop) return value;
    Pause();
  }
}

// The number of a message, which the receiver polls.
std::atomic<std::uint64_t>& Number(std::byte* at) {
  return *reinterpret_cast<std::atomic<std::uint64_t>*>(at);
}

// Runs a ping-pong. `send(forth, i)` sends message i there or back; `take(forth, i)` returns false at the
// end.
template <typename SendMessage, typename Take>
Values InTurns(const Plan& plan, SendMessage send, Take take) {
  const Peer peer(plan.peer_cpu, [&] {
    for (std::uint64_t i = 1; take(true, i); ++i) send(false, i);
  });
  PinTo(plan.cpu);
  std::uint64_t i = 0;
  const int batch = plan.size > 32768 ? 10 : kBatch;
  const double seconds = MedianOfBatches(plan, batch, [&] {
    send(true, ++i);
    take(false, i);
  });
  return {{"us", seconds / 2 * 1e6}};
}

}  // namespace

Values PingPong(const Plan& plan) {
  Lines& lines = Share<Lines>();
  return InTurns(
      plan,
      [&](bool forth, std::uint64_t i) {
        (forth ? lines.there : lines.back).number.store(i, std::memory_order_release);
      },
      [&](bool forth, std::uint64_t i) { return Await((forth ? lines.there : lines.back).number, i) == i; });
}

Values Write(const Plan& plan) {
  std::byte* const memory[] = {Share(plan.size), Share(plan.size)};
  const std::vector<std::byte> source(plan.size, std::byte{1});
  const std::size_t head = plan.size - sizeof(std::uint64_t);
  return InTurns(
      plan,
      [&](bool forth, std::uint64_t i) {
        std::memcpy(memory[forth], source.data(), head);
        Number(memory[forth] + head).store(i, std::memory_order_release);
      },
      [&](bool forth, std::uint64_t i) { return Await(Number(memory[forth] + head), i) == i; });
}

Values Ring(const Plan& plan) {
  constexpr std::size_t kSlots = 8;
  const std::size_t stride = (sizeof(std::uint64_t) + plan.size + 63) / 64 * 64;
  std::byte* const rings[] = {Share(kSlots * stride), Share(kSlots * stride)};
  const std::vector<std::byte> source(plan.size, std::byte{1});
  std::vector<std::byte> target(plan.size);
  const auto slot = [&](bool forth, std::uint64_t i) { return rings[forth] + i % kSlots * stride; };
  return InTurns(
      plan,
      [&](bool forth, std::uint64_t i) {
        std::memcpy(slot(forth, i) + sizeof(i), source.data(), plan.size);
        Number(slot(forth, i)).store(i, std::memory_order_release);
      },
      [&](bool forth, std::uint64_t i) {
        if (Await(Number(slot(forth, i)), i) != i) return false;
        std::memcpy(target.data(), slot(forth, i) + sizeof(i), plan.size);
        return true;
      });
}

Values Rate(const Plan& plan) {
  constexpr std::uint64_t kSlots = 256, kCredit = 32;
  Line* const ring = reinterpret_cast<Line*>(Share(kSlots * sizeof(Line)));
  Line& taken = Share<Line>();
  const Peer peer(plan.peer_cpu, [&] {
    for (std::uint64_t i = 1; Await(ring[i % kSlots].number, i) == i; ++i) {
      if (i % kCredit == 0) taken.number.store(i, std::memory_order_release);
    }
  });
  PinTo(plan.cpu);
  Periods periods;
  std::uint64_t free_until = kSlots;
  const double end = Now() + plan.seconds;
  for (std::uint64_t i = 1; Now() < end;) {
    constexpr int kMany = 1024;
    for (const std::uint64_t last = i + kMany; i < last; ++i) {
      while (i >= free_until) free_until = taken.number.load(std::memory_order_acquire) + kSlots;
      ring[i % kSlots].number.store(i, std::memory_order_release);
    }
    periods.Add(kMany);
  }
  return {{"per_s", periods.PerSecond()}};
}

Values Crossing(const Plan& plan) {
  // As many bytes as ndperf has in flight.
  const std::uint64_t window = std::clamp<std::uint64_t>((256U << 10) / plan.size, 2, 64);
  std::byte* const memory = Share(window * plan.size);
  Lines& lines = Share<Lines>();
  const Peer peer(plan.peer_cpu, [&] {
    std::uint64_t sum = 0, taken = 0;
    for (;;) {
      const std::uint64_t given = lines.there.number.load(std::memory_order_acquire);
      if (given == taken) Pause();
      for (; taken < given; ++taken) {
        sum += perf::ReadAll(memory + taken % window * plan.size, plan.size);
        [[maybe_unused]] volatile std::uint64_t used = sum;
        lines.back.number.store(taken + 1, std::memory_order_release);
      }
    }
  });
  PinTo(plan.cpu);
  const std::vector<std::byte> source(plan.size, std::byte{1});
  Periods periods;
  const double end = Now() + plan.seconds;
  for (std::uint64_t given = 0; Now() < end;) {
    while (given - lines.back.number.load(std::memory_order_acquire) >= window) Pause();
    std::memcpy(memory + given % window * plan.size, source.data(), plan.size);
    lines.there.number.store(++given, std::memory_order_release);
    periods.Add(static_cast<double>(plan.size));
  }
  return {{"gbytes_per_s", periods.PerSecond() / 1e9}};
}

}  // namespace nd::floors
