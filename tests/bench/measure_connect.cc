// SPDX-License-Identifier: Apache-2.0
// Connections: the clock stops when the passive end's first message says that it is connected too.
#include <atomic>
#include <mutex>
#include <thread>

#include "tests/bench/measure.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

constexpr std::uint64_t kHello = 0x48454c4c4f;

// `work` is called in `count` threads until it fails or says that nothing is left; the first failure.
template <typename Work>
Status InThreads(std::uint32_t count, const Work& work) {
  std::mutex mutex;
  Status failure;
  std::vector<std::thread> threads;
  for (std::uint32_t i = 0; i < count; ++i) {
    threads.emplace_back([&] {
      const Status status = work();
      const std::lock_guard lock(mutex);
      if (failure.ok()) failure = status;
    });
  }
  for (std::thread& thread : threads) thread.join();
  return failure;
}

Status ConnectOnce(Link& link, const Address& local, const Address& remote, double* microseconds) {
  if (Status status = link.NewQueuePair(); !status.ok()) return status;
  const Stopwatch watch;
  if (Status status = link.Connect(local, remote); !status.ok()) return status;
  const auto hello = link.NextMessage();
  if (!hello.ok()) return hello.status();
  *microseconds = watch.Microseconds();
  if (!HasStamp(*hello, sizeof(kHello), kHello)) return Mismatch(0);
  return link.Disconnect();
}

}  // namespace

Status ConnectActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  const auto local = adapter.ResolveAddress(remote);
  if (!local.ok()) return local.status();
  std::atomic<std::uint32_t> next{0};
  const std::uint32_t warmup = options.metric == Metric::kLatency ? Warmup(options) : 0;
  const std::uint32_t total = warmup + options.iterations;
  const Stopwatch watch;
  const Status status = InThreads(options.window, [&]() -> Status {
    Link link;
    if (Status prepared = link.Prepare(adapter, options, 1, 2); !prepared.ok()) return prepared;
    for (std::uint32_t i = next++; i < total; i = next++) {
      double microseconds = 0;
      if (Status once = ConnectOnce(link, *local, remote, &microseconds); !once.ok()) return once;
      // One thread only when latencies are asked for.
      if (options.metric == Metric::kLatency && i >= warmup) sample->latencies_us.push_back(microseconds);
    }
    return Status::Ok();
  });
  sample->seconds = watch.Microseconds() / 1e6;
  sample->operations = total;
  return status;
}

Status ConnectPassive(Adapter& adapter, Listener& listener, const Options& options) {
  std::atomic<std::uint32_t> next{0};
  const std::uint32_t total = options.iterations + (options.metric == Metric::kLatency ? Warmup(options) : 0);
  return InThreads(options.window, [&]() -> Status {
    Link link;
    if (Status prepared = link.Prepare(adapter, options, 1, 2); !prepared.ok()) return prepared;
    while (next++ < total) {
      if (Status status = link.NewQueuePair(); !status.ok()) return status;
      if (Status status = listener.GetConnectionRequest(link.connector()); !status.ok()) return status;
      if (Status status = link.Accept(); !status.ok()) return status;
      Stamp(link.slot(0), sizeof(kHello), kHello);
      if (Status status = link.Send(0, sizeof(kHello)); !status.ok()) return status;
      // The active end hangs up as soon as it has read this; then the send's own completion may be CANCELED.
      const Status disconnected = link.AwaitGoodbye();
      if (!disconnected.ok()) return disconnected;
    }
    return Status::Ok();
  });
}

}  // namespace nd::perf
