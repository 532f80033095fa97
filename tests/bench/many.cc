// SPDX-License-Identifier: Apache-2.0
// nd_many: opens many connections through a real broker and holds them, to measure programs under that load.
// Each pair has both its ends in one of the processes, so that a broker with N connections has N/2 pairs.
#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/locate.h"
#include "base/unique_fd.h"
#include "nd/nd.h"
#include "tests/bench/options.h"
#include "tests/bench/process.h"
#include "tests/bench/self_brokers.h"

namespace nd::perf {
namespace {

struct Wanted {
  std::uint32_t connections = 10000, processes = 8, messages = 1, regions = 1, hold = 0;
  bool self = false;
  std::string broker, adapter, application = "many";
  std::uint32_t pairs = 0;  // The number of a child process; 0 in the parent.
  int report_fd = -1;
};

constexpr std::size_t kMessage = 64;
constexpr std::chrono::seconds kPatience{300};

[[noreturn]] void Die(const std::string& what, const Status& status) {
  std::fprintf(stderr, "nd_many: %s: %s\n", what.c_str(), status.ToString().c_str());
  std::exit(1);
}
void Must(const Status& status, const char* what) {
  if (!status.ok() && !status.pending()) Die(what, status);
}
template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result.ok()) Die(what, result.status());
  return std::move(result).value();
}

// One process: a listener, and pairs that connect to it.
class Holder {
 public:
  explicit Holder(const Wanted& wanted)
      : wanted_(wanted),
        adapter_(Must(Adapter::Open({.broker = wanted.broker,
                                     .adapter = wanted.adapter,
                                     .application = wanted.application,
                                     .reconnect = false}),
                      "cannot use the broker")),
        queue_(Must(adapter_.CreateCompletionQueue(1024), "no completion queue")),
        buffer_((wanted.messages + 1) * kMessage) {
    if (adapter_.info().addresses.empty()) Die("the adapter has no address", Status());
    for (std::uint32_t i = 0; i < std::max(wanted.regions, 1u); ++i) {
      regions_.push_back(
          Must(adapter_.Register(buffer_.data(), buffer_.size(), kAllowLocalWrite), "no region"));
    }
    listener_ = Must(adapter_.CreateListener(), "no listener");
    Must(listener_.Bind(adapter_.info().addresses.front()), "cannot bind");
    Must(listener_.Listen(), "cannot listen");
    remote_ = Must(listener_.GetLocalAddress(), "no address");
  }

  void Open() {
    ends_.reserve(2 * wanted_.pairs);
    while (ends_.size() < 2 * wanted_.pairs) OpenOne();
  }

 private:
  struct End {
    QueuePair pair;
    Connector connector;
  };

  End NewEnd() {
    QueuePairOptions options;
    options.receive_cq = options.initiator_cq = &queue_;
    options.receive_depth = options.initiator_depth = std::max(wanted_.messages, 1u);
    return {Must(adapter_.CreateQueuePair(options), "no queue pair"),
            Must(adapter_.CreateConnector(), "no connector")};
  }

  void OpenOne() {
    End active = NewEnd(), passive = NewEnd();
    for (std::uint32_t i = 0; i < wanted_.messages; ++i) {
      const Sge in = regions_.front().Slice(buffer_.data() + i * kMessage, kMessage);
      Must(passive.pair.Receive(nullptr, {&in, 1}), "no receive");
    }
    Request connect, accept;
    Must(active.connector.NdkConnect(active.pair, remote_.WithPort(0), remote_, {}, &connect),
         "cannot connect");
    Must(listener_.GetConnectionRequest(passive.connector), "no request came");
    Must(passive.connector.Accept(passive.pair, {}, &accept), "cannot accept");
    Must(connect.GetResult(), "cannot connect");
    Must(active.connector.CompleteConnect(), "cannot complete");
    Must(accept.GetResult(), "cannot accept");
    const Sge out = regions_.front().Slice(buffer_.data() + wanted_.messages * kMessage, kMessage);
    for (std::uint32_t i = 0; i < wanted_.messages; ++i) {
      Must(active.pair.Send(nullptr, {&out, 1}, kOpInline | kOpSilentSuccess), "cannot send");
    }
    for (std::uint32_t i = 0; i < wanted_.messages; ++i) Must(queue_.Next(kPatience), "no message came");
    ends_.push_back(std::move(active));
    ends_.push_back(std::move(passive));
  }

  const Wanted wanted_;
  Adapter adapter_;
  CompletionQueue queue_;
  std::vector<std::byte> buffer_;
  std::vector<MemoryRegion> regions_;
  Listener listener_;
  Address remote_;
  std::vector<End> ends_;
};

int RunHolder(const Wanted& wanted) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
  }
  Holder holder(wanted);
  holder.Open();
  if (write(wanted.report_fd, "up\n", 3) != 3) return 1;
  for (;;) pause();  // Waits until the parent ends this process.
}

// Returns when the time is over, when standard input is closed, or on a signal.
void Hold(const Wanted& wanted, const UniqueFd& signals) {
  pollfd fds[] = {{signals.get(), POLLIN, 0}, {wanted.hold == 0 ? STDIN_FILENO : -1, POLLIN, 0}};
  const int milliseconds = wanted.hold == 0 ? -1 : static_cast<int>(wanted.hold) * 1000;
  char byte;
  while (poll(fds, 2, milliseconds) > 0) {
    if (fds[0].revents != 0 || read(STDIN_FILENO, &byte, 1) <= 0) return;
  }
}

int RunParent(Wanted wanted) {
  sigset_t ends;
  sigemptyset(&ends);
  for (const int number : {SIGTERM, SIGINT}) sigaddset(&ends, number);
  SelfBrokers brokers;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe");
  if (wanted.self) {
    Must(brokers.Start(Options{}, program), "cannot start a broker");
    wanted.broker = brokers.client_directory();
  } else if (wanted.broker.empty()) {
    wanted.broker = FindBrokerDirectory();
  }
  std::vector<Process> processes;
  const std::uint32_t pairs = (wanted.connections + 1) / 2;
  for (std::uint32_t i = 0; i < wanted.processes; ++i) {
    const std::uint32_t share = pairs / wanted.processes + (i < pairs % wanted.processes ? 1 : 0);
    if (share == 0) continue;
    std::vector<std::string> arguments = {"nd_many",
                                          "--pairs",
                                          std::to_string(share),
                                          "--messages",
                                          std::to_string(wanted.messages),
                                          "--regions",
                                          std::to_string(wanted.regions),
                                          "--broker",
                                          wanted.broker,
                                          "--application",
                                          wanted.application + "-" + std::to_string(i),
                                          "--report-fd",
                                          std::to_string(Process::kReportFd)};
    if (!wanted.adapter.empty()) arguments.insert(arguments.end(), {"--adapter", wanted.adapter});
    processes.push_back(Process::Start(program, arguments, true));
  }
  // Blocked from here on; the children keep the default signal mask.
  sigprocmask(SIG_BLOCK, &ends, nullptr);
  const UniqueFd signals(signalfd(-1, &ends, SFD_CLOEXEC));
  for (Process& process : processes) {
    if (process.ReadLine(kPatience) != "up") {
      std::fprintf(stderr, "nd_many: a process did not get its connections\n");
      return 1;
    }
  }
  std::printf("holding %u connections in %zu processes at %s\n", 2 * pairs, processes.size(),
              wanted.broker.c_str());
  std::fflush(stdout);
  Hold(wanted, signals);
  return 0;
}

}  // namespace
}  // namespace nd::perf

// NOLINTNEXTLINE(bugprone-exception-escape): an exception that is not caught is a bug and should leave a
// core.
int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  setenv("GRPC_VERBOSITY", "NONE", 0);
  nd::perf::Wanted wanted;
  CLI::App app("Opens many connections through a broker and holds them until its input ends", "nd_many");
  app.add_option("--connections", wanted.connections, "Connections in the broker; two to a pair")
      ->check(CLI::Range(2, 60000));
  app.add_option("--processes", wanted.processes, "Processes that share them")->check(CLI::Range(1, 200));
  app.add_option("--messages", wanted.messages, "Messages that each pair sends first")
      ->check(CLI::Range(0, 64));
  app.add_option("--regions", wanted.regions, "Memory regions of each process")->check(CLI::Range(1, 100000));
  app.add_option("--hold", wanted.hold, "Seconds to hold them; 0: until the input ends or a signal comes")
      ->check(CLI::Range(0, 86400));
  app.add_option("--broker", wanted.broker, "Directory of the broker");
  app.add_option("--adapter", wanted.adapter, "Adapter of that broker; empty: the first");
  app.add_option("--application", wanted.application, "Name that ndctl shows, with a number behind it");
  app.add_flag("--self", wanted.self, "Start a broker for it on loopback");
  app.add_option("--pairs", wanted.pairs)->group("");
  app.add_option("--report-fd", wanted.report_fd)->group("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return wanted.pairs != 0 ? nd::perf::RunHolder(wanted) : nd::perf::RunParent(wanted);
}
