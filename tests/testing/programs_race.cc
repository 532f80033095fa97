// SPDX-License-Identifier: Apache-2.0
// Races and loops inside one process, or between two processes with shared memory.
#include <atomic>
#include <random>
#include <thread>

#include "tests/testing/process.h"
#include "tests/testing/programs_common.h"
#include "tests/testing/programs_os.h"

namespace nd::testing {
std::string RaceBind(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  Meeting meeting(arguments.Text("meet"));
  std::string won;  // A character for each round.
  for (int round = 0; round < arguments.Number("rounds"); ++round) {
    Connector connector = adapter.CreateConnector().value();
    meeting.Wait();
    const Status status = connector.Bind(arguments.At());
    if (!status.ok() && !(status == StatusCode::kSharingViolation)) return status.ToString();
    won += status.ok() ? 'w' : 'l';
    meeting.Wait();
    (void)connector.Close();
    meeting.Wait();
  }
  return "ok " + won;
}

std::string RaceCancel(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  std::mt19937 random(7);
  int succeeded = 0, canceled = 0;
  for (int round = 0; round < arguments.Number("rounds"); ++round) {
    End end(adapter, 4096, 4);
    Connector connector = adapter.CreateConnector().value();
    const Status bound = connector.Bind(arguments.At("from"));
    if (!bound.ok()) return "Bind: " + bound.ToString();
    std::atomic<int> completions{0};
    Request request([&](const Status&) { ++completions; });
    const Status begun = connector.Connect(end.qp, arguments.At(), {}, &request);
    if (!begun.pending()) return "Connect: " + begun.ToString();
    for (auto spin = random() % 4000; spin > 0; --spin) asm volatile("");
    if (random() % 2 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 400));
    const Status cancel = connector.Cancel();
    if (!cancel.ok()) return "Cancel: " + cancel.ToString();
    const Status result = request.GetResult(false);
    if (result.ok()) {
      ++succeeded;
      const Status complete = connector.CompleteConnect();
      if (!complete.ok()) return "CompleteConnect after SUCCESS: " + complete.ToString();
    } else if (result == StatusCode::kCanceled) {
      ++canceled;
    } else {
      return "Connect ended " + result.ToString();
    }
    const bool told = Eventually([&] { return completions >= 1; });
    (void)connector.Close();
    if (!told || completions != 1) return "completions: " + std::to_string(completions);
  }
  return "ok succeeded=" + std::to_string(succeeded) + " canceled=" + std::to_string(canceled);
}

std::string CancelOrder(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  Listener listeners[2];
  for (Listener& listener : listeners) {
    listener = adapter.CreateListener().value();
    if (!listener.Bind(arguments.At()).ok() || !listener.Listen().ok()) return "cannot listen";
  }
  for (int round = 0; round < arguments.Number("rounds"); ++round) {
    // Three requests on the first, one on the second, issued alternately; canceled in either order.
    const int first = round % 2;
    Connector connectors[4];
    Request requests[4];
    for (int i = 0; i < 4; ++i) {
      connectors[i] = adapter.CreateConnector().value();
      Listener& listener = listeners[i == 1 ? 1 - first : first];
      const Status status = listener.GetConnectionRequest(connectors[i], &requests[i]);
      if (!status.pending()) return "GetConnectionRequest: " + status.ToString();
    }
    if (!listeners[first].Cancel().ok() || !listeners[1 - first].Cancel().ok()) return "Cancel failed";
    // The completions are visible when Cancel returns, in the order of the cancels, then of submission.
    for (const int expected : {0, 2, 3, 1}) {
      Request* done = nullptr;
      Eventually([&] { return (done = adapter.PollRequest()) != nullptr; });
      if (done != &requests[expected]) return "out of order in round " + std::to_string(round);
      if (!(done->GetResult(false) == StatusCode::kCanceled)) return "not CANCELED";
    }
    for (Connector& connector : connectors) (void)connector.Close();
  }
  return "ok";
}

std::string Churn(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  const Address local = arguments.At();
  const auto round = [&]() -> Status {
    CompletionQueue cq = adapter.CreateCompletionQueue(16).value();
    SharedReceiveQueue srq = adapter.CreateSharedReceiveQueue(16).value();
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &cq;
    options.shared_receive_queue = &srq;
    QueuePair qp = adapter.CreateQueuePair(options).value();
    Connector connector = adapter.CreateConnector().value();
    if (Status s = connector.Bind(local); !s.ok()) return s;
    Listener listener = adapter.CreateListener().value();
    if (Status s = listener.Bind(local); !s.ok()) return s;
    if (Status s = listener.Listen(); !s.ok()) return s;
    Result<SharedEndpoint> endpoint = adapter.CreateSharedEndpoint(local);
    if (!endpoint.ok()) return endpoint.status();
    Buffer buffer = adapter.AllocateBuffer(4096).value();
    MemoryRegion region = adapter.Register(buffer, kAllowLocalWrite).value();
    MemoryWindow window;
    if (adapter.info().max_window_size > 0) window = adapter.CreateMemoryWindow().value();
    if (Status s = region.Deregister(); !s.ok()) return s;
    Adapter other = OpenFor(arguments);
    Result<Listener> events = other.NdkListen(local, [](Connector) {});
    if (!events.ok()) return events.status();
    for (const Status& s : {connector.Close(), listener.Close(), endpoint->Close(), qp.Close(), srq.Close(),
                            cq.Close(), events->Close(), other.Close()}) {
      if (!s.ok()) return s;
    }
    return Status();
  };
  // A connection of this process with itself: four descriptors arrive with its hand-overs.
  const auto connection = [&]() -> Status {
    End mine(adapter, 4096, 4), theirs(adapter, 4096, 4);
    Listener listener = adapter.CreateListener().value();
    if (Status s = listener.Bind(local); !s.ok()) return s;
    if (Status s = listener.Listen(); !s.ok()) return s;
    const Address at = listener.GetLocalAddress().value();
    Connector active = adapter.CreateConnector().value(), passive = adapter.CreateConnector().value();
    Request arrives, connects, accepts;
    Status status = listener.GetConnectionRequest(passive, &arrives);
    if (!status.pending()) return status;
    if (Status s = active.Bind(local); !s.ok()) return s;
    status = active.Connect(mine.qp, at, {}, &connects);
    if (!status.pending()) return status;
    if (Status s = Await(StatusCode::kPending, arrives); !s.ok()) return s;
    status = passive.Accept(theirs.qp, {}, &accepts);
    if (!status.pending()) return status;
    if (Status s = Await(StatusCode::kPending, connects); !s.ok()) return s;
    if (Status s = active.CompleteConnect(); !s.ok()) return s;
    if (Status s = Await(StatusCode::kPending, accepts); !s.ok()) return s;
    for (const Status& s : {active.Disconnect(), active.Close(), passive.Close(), listener.Close()}) {
      if (!s.ok()) return s;
    }
    return Status();
  };
  const int rounds = arguments.Number("rounds");
  // Slots of the region table are random, so early registrations touch its 4096 pages one by one. All pages
  // are touched before the measurement.
  Buffer buffer = adapter.AllocateBuffer(4096).value();
  for (int i = 0; i < 65536; ++i) {
    if (Status s = adapter.Register(buffer, kAllowLocalWrite).value().Deregister(); !s.ok())
      return s.ToString();
  }
  for (int i = 0; i < rounds / 5; ++i) {
    if (const Status s = round(); !s.ok()) return s.ToString();
    if (i % 10 != 0) continue;
    if (const Status s = connection(); !s.ok()) return "connection: " + s.ToString();
  }
  const std::size_t descriptors = CountDescriptors(OwnProcess()), resident = ResidentKilobytes();
  for (int i = rounds / 5; i < rounds; ++i) {
    if (const Status s = round(); !s.ok()) return s.ToString();
    if (i % 10 != 0) continue;
    if (const Status s = connection(); !s.ok()) return "connection: " + s.ToString();
  }
  if (!Eventually([&] { return CountDescriptors(OwnProcess()) <= descriptors; })) return "descriptors grew";
  const std::size_t after = ResidentKilobytes();
  constexpr std::size_t kNoise = 768;  // KiB
  if (after > resident + kNoise) {
    return "memory grew from " + std::to_string(resident) + " to " + std::to_string(after) + " KiB";
  }
  return "ok";
}

std::string PostRace(const Arguments& arguments) {
  Adapter adapter = OpenFor(arguments);
  Listener listener = adapter.CreateListener().value();
  if (!listener.Bind(arguments.At()).ok() || !listener.Listen().ok()) return "cannot listen";
  const Address to = listener.GetLocalAddress().value();
  const auto end_time = std::chrono::steady_clock::now() + std::chrono::seconds(arguments.Number("seconds"));
  int rounds = 0;
  while (std::chrono::steady_clock::now() < end_time) {
    End a(adapter, 4096), p(adapter, 4096);
    Connector ac = adapter.CreateConnector().value(), pc = adapter.CreateConnector().value();
    Request connecting, accepting;
    (void)ac.NdkConnect(a.qp, arguments.At(), to, {}, &connecting);
    if (Status s = listener.GetConnectionRequest(pc); !s.ok()) return "GetConnectionRequest: " + s.ToString();
    const Status accept = pc.Accept(p.qp, {}, &accepting);
    if (Status s = Await(Status(StatusCode::kPending), connecting); !s.ok())
      return "Connect: " + s.ToString();
    if (Status s = ac.CompleteConnect(); !s.ok()) return "CompleteConnect: " + s.ToString();
    if (Status s = Await(accept, accepting); !s.ok()) return "Accept: " + s.ToString();
    std::atomic<bool> stop{false};
    std::atomic<int> posted{0};
    std::thread poster([&] {
      const Sge sge = a.Piece(0, 64);
      while (!stop) {
        if (posted < 60 && a.qp.Receive(nullptr, std::span(&sge, 1)).ok()) ++posted;
        if (posted < 60 && a.qp.Send(nullptr, std::span(&sge, 1)).ok()) ++posted;
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(rounds % 7 * 100));
    (void)a.qp.Flush();
    (void)ac.Close();
    (void)a.qp.Flush();
    stop = true;
    poster.join();
    (void)a.qp.Flush();
    int completed = 0;
    Eventually([&] {
      Completion list[64];
      completed += static_cast<int>(a.cq.Poll(list));
      return completed >= posted;
    });
    Completion extra;
    completed += static_cast<int>(a.cq.Poll(std::span(&extra, 1)));
    if (completed != posted) {
      return "posted " + std::to_string(posted) + ", completed " + std::to_string(completed);
    }
    (void)pc.Close();
    (void)a.qp.Close();
    (void)p.qp.Close();
    ++rounds;
  }
  return "ok rounds=" + std::to_string(rounds);
}

}  // namespace nd::testing
