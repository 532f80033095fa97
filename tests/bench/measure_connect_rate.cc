// SPDX-License-Identifier: Apache-2.0
// Many connections at once, as a server makes them: one thread advances every connection whose operation has
// completed.
#include <deque>
#include <functional>

#include "base/os/wait.h"
#include "tests/bench/measure.h"

namespace nd::perf {
namespace {

// One of the connections under way. When it ends, the next one takes its slot.
struct Slot {
  QueuePair queue_pair;
  Connector connector;
  Request request;
  std::uint32_t step = 0;
};

using Step = std::function<Status(Slot& slot, std::uint32_t step)>;

class Crowd {
 public:
  // Each connection is a new queue pair and connector and then steps 0 to `steps` - 1. The connection ends
  // with the last step.
  Crowd(Adapter& adapter, const Options& options, std::uint32_t steps, Step step)
      : adapter_(adapter),
        options_(options),
        steps_(steps),
        step_(std::move(step)),
        progress_(options),
        slots_(options.window) {}

  // The time that the connections after the warm-up took, once Run() has succeeded.
  double Seconds() const { return watch_.Microseconds() / 1e6; }

  Status Run() {
    auto queue = adapter_.CreateCompletionQueue(16);
    if (!queue.ok()) return queue.status();
    queue_ = *queue;
    for (Slot& slot : slots_) {
      slot.request.context = &slot;
      slot.step = steps_;
      if (Status status = Go(slot); !status.ok()) return status;
    }
    while (over_ < options_.iterations) {
      Request* const finished = Await();
      if (finished == nullptr)
        return {StatusCode::kIoTimeout, "no connection made progress for half a minute"};
      Slot& slot = *static_cast<Slot*>(finished->context);
      if (Status status = Judge(slot, finished->GetResult()); !status.ok()) return status;
      if (Status status = Go(slot); !status.ok()) return status;
    }
    return Status::Ok();
  }

 private:
  // Runs the steps of the slot until an operation is pending or no connection is left to make.
  Status Go(Slot& slot) {
    for (;;) {
      if (slot.step == steps_) {
        if (begun_ == options_.iterations) return Status::Ok();
        ++begun_;
        if (Status status = Renew(slot); !status.ok()) return status;
      }
      const Status status = step_(slot, slot.step);
      if (status.pending()) return Status::Ok();
      if (Status judged = Judge(slot, status); !judged.ok()) return judged;
    }
  }

  // Handles the status of the step of the slot.
  Status Judge(Slot& slot, const Status& status) {
    const bool last = ++slot.step == steps_;
    if (last) {
      progress_.Tick(++over_);
      if (over_ == Warmup(options_)) watch_ = Stopwatch();
    }
    // The side that disconnects second finds the connection gone, which is fine.
    const bool gone =
        status == StatusCode::kConnectionInvalid || status == StatusCode::kConnectionDisconnected;
    return last && gone ? Status::Ok() : status;
  }

  Status Renew(Slot& slot) {
    slot.step = 0;
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    options.receive_depth = options.initiator_depth = 1;
    options.max_receive_sge = options.max_initiator_sge = 1;
    auto queue_pair = adapter_.CreateQueuePair(options);
    if (!queue_pair.ok()) return queue_pair.status();
    slot.queue_pair = *queue_pair;
    auto connector = adapter_.CreateConnector();
    if (!connector.ok()) return connector.status();
    slot.connector = *connector;
    return Status::Ok();
  }

  Request* Await() {
    const Stopwatch watch;
    for (;;) {
      if (Request* finished = adapter_.PollRequest()) return finished;
      if (watch.Microseconds() > 1e6 * kStuck.count()) return nullptr;
      os::Watched entry{.fd = adapter_.completion_handle()};
      if (options_.waiting != Waiting::kPoll) os::Wait({&entry, 1}, std::chrono::seconds(1));
    }
  }

  Adapter& adapter_;
  const Options& options_;
  const std::uint32_t steps_;
  const Step step_;
  Progress progress_;
  Stopwatch watch_;
  CompletionQueue queue_;
  std::deque<Slot> slots_;
  std::uint32_t begun_ = 0, over_ = 0;
};

}  // namespace

Status ConnectRateActive(Adapter& adapter, const Address& remote, const Options& options, Sample* sample) {
  const auto local = adapter.ResolveAddress(remote);
  if (!local.ok()) return local.status();
  const Address source = local->WithPort(0);
  Crowd crowd(adapter, options, 3, [&](Slot& slot, std::uint32_t step) {
    if (step == 0) return slot.connector.NdkConnect(slot.queue_pair, source, remote, {}, &slot.request);
    if (step == 1) return slot.connector.CompleteConnect(&slot.request);
    return slot.connector.Disconnect(&slot.request);
  });
  Status status = crowd.Run();
  sample->seconds = crowd.Seconds();
  sample->operations = options.iterations - Warmup(options);
  return status;
}

Status ConnectRatePassive(Adapter& adapter, Listener& listener, const Options& options) {
  Crowd crowd(adapter, options, 3, [&](Slot& slot, std::uint32_t step) {
    if (step == 0) return listener.GetConnectionRequest(slot.connector, &slot.request);
    if (step == 1) return slot.connector.Accept(slot.queue_pair, {}, &slot.request);
    return slot.connector.NotifyDisconnect(
        &slot.request);  // When it completes there is nothing left to disconnect.
  });
  return crowd.Run();
}

}  // namespace nd::perf
