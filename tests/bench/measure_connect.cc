// SPDX-License-Identifier: Apache-2.0
// One connection after the other. The clock stops when the first message of the passive end confirms that it
// is connected.
#include "tests/bench/measure.h"
#include "tests/bench/stamp.h"

namespace nd::perf {
namespace {

constexpr std::uint64_t kHello = 0x48454c4c4f;

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

Status ConnectLatencyActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  const auto local = adapter.ResolveAddress(remote);
  if (!local.ok()) return local.status();
  Link link;
  if (Status prepared = link.Prepare(adapter, options, 1, 2); !prepared.ok()) return prepared;
  const std::uint32_t warmup = Warmup(options);
  Progress progress(options);
  for (std::uint32_t i = 0; i < warmup + options.iterations; ++i) {
    progress.Tick(i);
    double microseconds = 0;
    if (Status once = ConnectOnce(link, *local, remote, &microseconds); !once.ok()) return once;
    if (i >= warmup) sample->latencies_us.push_back(microseconds);
  }
  return Status::Ok();
}

Status ConnectLatencyPassive(Adapter& adapter, Listener& listener, const Options& options) {
  Link link;
  if (Status prepared = link.Prepare(adapter, options, 1, 2); !prepared.ok()) return prepared;
  for (std::uint32_t i = 0; i < Warmup(options) + options.iterations; ++i) {
    if (Status status = link.NewQueuePair(); !status.ok()) return status;
    if (Status status = listener.GetConnectionRequest(link.connector()); !status.ok()) return status;
    if (Status status = link.Accept(); !status.ok()) return status;
    Stamp(link.slot(0), sizeof(kHello), kHello);
    if (Status status = link.Send(0, sizeof(kHello)); !status.ok()) return status;
    // The active end disconnects as soon as it has read this message, so the Send may complete with CANCELED.
    Status disconnected = link.AwaitGoodbye();
    if (!disconnected.ok()) return disconnected;
  }
  return Status::Ok();
}

}  // namespace nd::perf
