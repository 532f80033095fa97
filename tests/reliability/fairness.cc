// SPDX-License-Identifier: Apache-2.0
// A hundred processes of one user make connections as fast as they can, beside one process of another user.
//
// The broker, the greedy processes and the honest one are sessions of the kernel (setsid), which the
// scheduler gives equal parts of the processors (sched_autogroup), as it does for the slices of users under
// systemd. Without that the measurement would show how the kernel shares processors among processes.
#include <nd/nd.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <fstream>
#include <memory>
#include <new>
#include <thread>

#include "tests/reliability/apps.h"
#include "tests/reliability/parts.h"
#include "tests/reliability/say.h"

namespace nd::reliability {
namespace {

constexpr uid_t kGreedy = 65534, kHonest = 65533;
constexpr std::size_t kProcesses = 100;
// Threads of the honest process, so that it could reach a share of one half.
constexpr std::size_t kThreads = 4;
constexpr std::uint32_t kPhases = 4;
constexpr std::size_t kMost = 1 << 18;  // Durations that are kept of each phase.

// Shared by the processes of one user.
struct Score {
  std::atomic<std::uint32_t> phase{0}, ready{0};
  std::atomic<std::uint64_t> made[kPhases]{}, failed[kPhases]{};
  float durations[kPhases][kMost]{};
};
Score* score = nullptr;
volatile sig_atomic_t over = 0;

// Connections to a listener of this process, one after another.
void Storm(const std::string& directory, const Address& service) {
  OpenOptions options;
  options.broker = directory;
  options.application = "storm";
  Adapter adapter = Must(Adapter::Open(options));
  Listener listener = Must(adapter.CreateListener());
  Must(listener.Bind(service));
  Must(listener.Listen());
  CompletionQueue queue = Must(adapter.CreateCompletionQueue(64));
  struct End {
    QueuePair pair;
    Connector connector;
    Status Make(Adapter& from, CompletionQueue& with) {
      Result<QueuePair> pairs = from.CreateQueuePair({.receive_cq = &with, .initiator_cq = &with});
      if (!pairs.ok()) return pairs.status();
      pair = std::move(pairs).value();
      Result<Connector> connectors = from.CreateConnector();
      if (!connectors.ok()) return connectors.status();
      connector = std::move(connectors).value();
      return Status::Ok();
    }
    void Close() {
      static_cast<void>(connector.Close());
      static_cast<void>(pair.Close());
    }
  };
  ++score->ready;
  for (;;) {
    const auto began = Clock::now();
    const std::uint32_t phase = score->phase;
    End client, server;
    Status status = client.Make(adapter, queue);
    if (status.ok()) status = server.Make(adapter, queue);
    Request connecting, wanted, accepting;
    const auto wait = [&status](Request& request) {
      if (status.ok() || status.pending()) status = request.GetResult();
    };
    if (status.ok()) {
      status = client.connector.Bind(service.WithPort(0));
      if (status.ok()) status = client.connector.Connect(client.pair, service, {}, &connecting);
      if (status.ok() || status.pending()) status = listener.GetConnectionRequest(server.connector, &wanted);
      wait(wanted);
      if (status.ok()) status = server.connector.Accept(server.pair, {}, &accepting);
      wait(connecting);
      if (status.ok()) status = client.connector.CompleteConnect();
      wait(accepting);
    }
    client.Close();
    server.Close();
    if (!status.ok()) {
      ++score->failed[phase];
      std::this_thread::sleep_for(milliseconds(1));
      continue;
    }
    const std::uint64_t number = score->made[phase]++;
    if (number < kMost)
      score->durations[phase][number] = static_cast<float>(Milliseconds(Clock::now() - began));
  }
}

double Share(const App& app, const char* name, std::uint32_t phase) {
  const std::vector<std::string> lines = app.Lines();
  const std::string begin = "phase " + std::to_string(phase) + " ";
  for (const std::string& line : lines) {
    if (line.rfind(begin, 0) == 0) return Field(line, name);
  }
  return -1;
}

}  // namespace

int RunStorm(const std::vector<std::string>& arguments) {
  const Address service = Must(Address::Parse(arguments.at(1)));
  const std::size_t processes = std::stoul(arguments.at(2)), threads = std::stoul(arguments.at(3));
  ::setsid();
  void* shared = ::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) Die("no shared memory");
  score = new (shared) Score;
  ::signal(SIGTERM, [](int) { over = 1; });
  ::signal(SIGUSR1, [](int) { score->phase = std::min(score->phase + 1, kPhases - 1); });
  const pid_t parent = ::getpid();
  for (std::size_t i = 0; i < processes; ++i) {
    if (::fork() != 0) continue;
    ::signal(SIGTERM, SIG_DFL);
    ::signal(SIGUSR1, SIG_IGN);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(0);
    std::vector<std::thread> all;
    for (std::size_t k = 0; k < threads; ++k) {
      const auto port = static_cast<std::uint16_t>(service.port() + i * threads + k);
      all.emplace_back([&, port] { Storm(arguments.at(0), service.WithPort(port)); });
    }
    for (std::thread& thread : all) thread.join();
  }
  while (over == 0 && score->ready < processes * threads) std::this_thread::sleep_for(milliseconds(5));
  std::puts("storming");
  std::fflush(stdout);
  while (over == 0) std::this_thread::sleep_for(milliseconds(5));
  for (std::uint32_t phase = 0; phase < kPhases; ++phase) {
    const std::uint64_t made = score->made[phase];
    std::vector<double> durations(score->durations[phase],
                                  score->durations[phase] + std::min<std::uint64_t>(made, kMost));
    std::puts(Format("phase %u made=%zu failed=%zu p50=%.3f p99=%.3f", phase, static_cast<std::size_t>(made),
                     static_cast<std::size_t>(score->failed[phase].load()), Percentile(durations, 0.5),
                     Percentile(durations, 0.99))
                  .c_str());
  }
  std::puts("storm over");
  std::fflush(stdout);
  std::_Exit(0);  // The processes of the storm end with this one.
}

int MeasureFairness(const Scale& scale) {
  const seconds window(scale.connections >= 10'000 ? 20 : 5);
  const Place place;
  testing::Daemon broker(BrokerAt(2));
  if (!broker.Start()) Die("the broker does not start");
  App honest(place.path(), "honest",
             {"--storm", broker.directory(), "127.0.0.2:7000", "1", std::to_string(kThreads)}, kHonest);
  if (honest.Await("storming").empty()) Die("the honest process does not begin");
  const auto next = [&honest](std::chrono::milliseconds duration) {
    honest.process().Signal(SIGUSR1);
    std::this_thread::sleep_for(duration);
  };
  std::this_thread::sleep_for(seconds(2));
  next(window);  // Phase 1: alone.
  next(milliseconds(0));
  App greedy(place.path(), "greedy",
             {"--storm", broker.directory(), "127.0.0.2:10000", std::to_string(kProcesses), "1"}, kGreedy);
  if (greedy.Await("storming").empty()) Die("the greedy processes do not begin");
  std::this_thread::sleep_for(seconds(2));
  greedy.process().Signal(SIGUSR1);
  next(window);  // Phase 3 of the honest process, beside the greedy ones in their phase 1.
  greedy.process().Signal(SIGUSR1);
  if (honest.End("storm over").empty() || greedy.End("storm over").empty()) Die("a storm does not end");
  const double alone = Share(honest, "made", 1), beside = Share(honest, "made", 3),
               theirs = Share(greedy, "made", 1);
  const double p99 = Share(honest, "p99", 1), p99_beside = Share(honest, "p99", 3);
  const double failed = Share(honest, "failed", 1) + Share(honest, "failed", 3);
  if (alone <= 0 || beside <= 0 || theirs <= 0) {
    Die(Format("a storm made no connection: %.0f alone, %.0f beside %.0f; %s", alone, beside, theirs,
               honest.Lines().back().c_str()));
  }
  std::string grouped;
  std::getline(std::ifstream("/proc/sys/kernel/sched_autogroup_enabled"), grouped);
  const double part = beside / (beside + theirs);
  const bool met = part >= 0.45 && p99_beside <= 3 * p99 && failed == 0;
  const auto time = static_cast<double>(window.count());
  Row(31,
      met              ? Verdict::kMet
      : grouped == "1" ? Verdict::kMissed
                       : Verdict::kUnclear,
      Format("%.0f %% of the connections (%.0f a second beside %.0f of %zu greedy processes; alone %.0f); "
             "p50 %.2f ms, alone "
             "%.2f; p99 %.2f ms, alone %.2f; %.0f failed",
             100 * part, beside / time, theirs / time, kProcesses, alone / time, Share(honest, "p50", 3),
             Share(honest, "p50", 1), p99_beside, p99, failed));
  return 0;
}

}  // namespace nd::reliability
