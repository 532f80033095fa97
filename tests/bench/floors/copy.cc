// SPDX-License-Identifier: Apache-2.0
// Copies within one process and into the memory of another.
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "tests/bench/floors/floor.h"
#include "tests/bench/floors/tools.h"

namespace nd::floors {

Values Memcpy(const Plan& plan) {
  PinTo(plan.cpu);
  std::byte* const from = Share(plan.size);
  std::byte* const to = Share(plan.size);
  const int batch = static_cast<int>((std::size_t{1} << 20) / plan.size) + 1;
  const double seconds = MedianOfBatches(plan, batch, [&] {
    std::memcpy(to, from, plan.size);
    asm volatile("" ::"r"(to) : "memory");  // Keeps a copy whose result nobody reads.
  });
  return {{"us", seconds * 1e6}, {"gbytes_per_s", static_cast<double>(plan.size) / seconds / 1e9}};
}

Values VmWrite(const Plan& plan) {
  // The child gets a copy of its own at the same address.
  std::vector<std::byte> target(plan.size, std::byte{1});
  const Peer peer(plan.peer_cpu, [&] {
    std::memset(target.data(), 2, target.size());
    for (;;) pause();
  });
  PinTo(plan.cpu);
  std::vector<std::byte> source(plan.size, std::byte{3});
  const iovec from{source.data(), source.size()}, to{target.data(), target.size()};
  const double seconds = MedianOfBatches(
      plan, 10, [&] { Must(process_vm_writev(peer.pid(), &from, 1, &to, 1, 0), "process_vm_writev"); });
  return {{"us", seconds * 1e6}};
}

}  // namespace nd::floors
