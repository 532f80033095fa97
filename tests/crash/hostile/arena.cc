// SPDX-License-Identifier: Apache-2.0
#include "tests/crash/hostile/arena.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "tests/testing/network.h"

namespace nd::hostile {
namespace {

using std::chrono::seconds;
using testing::Eventually;

constexpr uid_t kAttacker = 65534;
// Resident memory that a broker may keep after an attack: freed memory that its allocator holds.
constexpr std::uint64_t kKeptBytes = 48 << 20;

std::uint64_t ResidentBytes(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/statm");
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::string Scrape(const std::string& directory) {
  const UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s/metrics.sock", directory.c_str());
  if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) return {};
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
  if (::send(fd.get(), request.data(), request.size(), MSG_NOSIGNAL) < 0) return {};
  std::string answer;
  std::array<char, 16384> buffer;
  for (ssize_t n; (n = ::recv(fd.get(), buffer.data(), buffer.size(), 0)) > 0;)
    answer.append(buffer.data(), static_cast<std::size_t>(n));
  return answer;
}

double ValueOf(const std::string& page, const std::string& name) {
  const std::size_t at = page.find("\n" + name + " ");
  return at == std::string::npos ? 0 : std::atof(page.c_str() + at + name.size() + 2);
}

pid_t ThreadOf(pid_t process, const std::string& name) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::string comm;
    std::getline(std::ifstream(entry.path() / "comm"), comm);
    if (comm == name) return std::stoi(entry.path().filename().string());
  }
  return -1;
}

// The larger number of each kind.
testing::Counts Most(const testing::Counts& a, const testing::Counts& b) {
  return {std::max(a.sessions, b.sessions),       std::max(a.connections, b.connections),
          std::max(a.listeners, b.listeners),     std::max(a.endpoints, b.endpoints),
          std::max(a.queue_pairs, b.queue_pairs), std::max(a.ports, b.ports),
          std::max(a.descriptors, b.descriptors), std::max(a.handshakes, b.handshakes)};
}

// Leaves one processor to the loop, for this process and all that it starts. A processor that it shared would
// be taken from it for 50 ms of each second, in favour of the others (sched_rt_runtime_us).
bool LeaveOneProcessor(cpu_set_t* left) {
  cpu_set_t mine;
  if (::sched_getaffinity(0, sizeof mine, &mine) != 0 || CPU_COUNT(&mine) < 2) return false;
  int last = CPU_SETSIZE - 1;
  while (!CPU_ISSET(last, &mine)) --last;
  CPU_ZERO(left);
  CPU_SET(last, left);
  CPU_CLR(last, &mine);
  return ::sched_setaffinity(0, sizeof mine, &mine) == 0;
}

}  // namespace

// The processes of an attack, and the lines that they print.
struct Arena::Attackers {
  Attackers(const Attack& attack, const Arena& arena, const std::string& directory, int host) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
    hear.reset(ends[0]);
    const UniqueFd say(ends[1]);
    ::fcntl(say.get(), F_SETFL, 0);
    wanted = attack.processes * arena.scale_.factor;
    for (int i = 0; i < wanted; ++i) {
      testing::SpawnOptions options;
      options.arguments = {std::filesystem::read_symlink("/proc/self/exe").string(),
                           "--attack",
                           attack.name,
                           directory,
                           std::to_string(host),
                           std::to_string(i)};
      if (arena.other_user_ && !attack.same_user) options.uid = kAttacker;
      options.descriptor3 = say.get();
      processes.push_back(testing::Process::Spawn(options));
    }
  }
  // Takes the lines that they have printed.
  void Listen() {
    std::array<char, 4096> buffer;
    for (ssize_t n; (n = ::read(hear.get(), buffer.data(), buffer.size())) > 0;)
      heard.append(buffer.data(), static_cast<std::size_t>(n));
    for (std::size_t end; (end = heard.find('\n')) != std::string::npos; heard.erase(0, end + 1)) {
      const std::string line = heard.substr(0, end);
      if (line == "UNDERWAY")
        ++underway;
      else
        broken.push_back(line);
    }
  }
  bool AwaitUnderway() {
    return Eventually(
        [&] {
          Listen();
          return underway >= wanted || !broken.empty();
        },
        seconds(60));
  }
  UniqueFd hear;
  std::string heard;
  int wanted = 0, underway = 0;
  std::vector<std::string> broken;
  std::vector<testing::Process> processes;
};

Arena::Arena(const Scale& scale, bool peers)
    : scale_(scale), peers_(peers), other_user_(testing::CanBeAnotherUser()) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  cpu_set_t loop_processor;
  if (scale_.loop_first && !LeaveOneProcessor(&loop_processor)) {
    error_ = "--loop-first: this process may run on one processor only, and the loop needs one for itself";
    return;
  }
  for (int host = peers ? 2 : 3; host <= 3; ++host) {
    testing::DaemonOptions options;
    options.adapters = {"name = \"soft0\"\naddresses = [\"127.0.0." + std::to_string(host) + "\"]"};
    options.sections["metrics"] =
        "listen = \"127.0.0." + std::to_string(host) + ":" + std::to_string(kScrapePort) + "\"";
    brokers_.push_back(std::make_unique<testing::Daemon>(std::move(options)));
    if (!brokers_.back()->Start()) {
      error_ = "a broker does not start: " + brokers_.back()->log();
      return;
    }
  }
  if (scale_.loop_first) {
    const pid_t loop = ThreadOf(attacked().pid(), "nd-loop");
    if (loop < 0 || ::setpriority(PRIO_PROCESS, static_cast<id_t>(loop), -20) != 0 ||
        ::sched_setaffinity(loop, sizeof loop_processor, &loop_processor) != 0) {
      error_ = std::string("--loop-first: the kernel does not run the loop first: ") + std::strerror(errno);
      return;
    }
  }
  const int active = peers ? 2 : 3;
  honest_ = std::make_unique<Honest>(Honest::Side{brokers_.front()->directory(), active},
                                     Honest::Side{brokers_.back()->directory(), 3}, true);
  honest_->Measure(10);  // Resources that the first connections open stay open.
  idle_ = honest_->Measure(scale_.connects);
  // The victim waits for requests most of the time, and makes its next objects in between.
  for (int i = 0; i < 10; ++i, ::usleep(10'000)) most_ = Most(most_, attacked().Count());
  if (idle_.failures != 0) error_ = "the honest tenant fails without an attack: " + idle_.first_failure;
}

Arena::~Arena() {
  honest_.reset();
}

Arena::Loop Arena::ReadLoop() {
  // A scrape may be refused while the broker is under attack.
  constexpr char kRounds[] = "ndbroker_loop_round_duration_seconds_";
  // A page is up to 100 ms old: without the pause two readings may be one page, in which nothing took any
  // time.
  if (!scale_.brief || scale_.stalls) ::usleep(110'000);
  std::string page;
  Eventually([&] {
    return (page = Scrape(attacked().directory())).find(std::string(kRounds) + "count") != std::string::npos;
  });
  Loop loop{.rounds = ValueOf(page, std::string(kRounds) + "count"), .at_most = {}};
  for (const std::int64_t bound : EventLoop::Rounds::kBoundsUs) {
    char name[96];
    std::snprintf(name, sizeof name, "%sbucket{le=\"%g\"}", kRounds, static_cast<double>(bound) / 1e6);
    loop.at_most.push_back(ValueOf(page, name));
  }
  return loop;
}

double Arena::Loop::LongestSince(const Loop& before) const {
  const auto& bounds = EventLoop::Rounds::kBoundsUs;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    if (at_most[i] - before.at_most[i] >= rounds - before.rounds) return static_cast<double>(bounds[i]);
  }
  return 10 * static_cast<double>(bounds.back());
}

void Arena::PrintHeading() {
  std::puts(
      "Ratios to idle of the honest tenant's p50, p99 and max; the longest round of the broker's loop.\n"
      "| attack | operation | connect | message | failed | longest round | memory |\n"
      "|---|---|---|---|--:|--:|--:|");
}

void Arena::Print(const std::string& name, const Measured& idle, const Measured& under, double longest_us) {
  const auto ratio = [](const std::vector<double>& before, const std::vector<double>& after, double part) {
    const double base = Percentile(before, part);
    return base > 0 ? Percentile(after, part) / base : 0;
  };
  const auto cell = [&](const std::vector<double>& before, const std::vector<double>& after, double* worst) {
    char text[96];
    const double p99 = Percentile(after, 0.99);
    std::snprintf(text, sizeof text, "%.1f %.1f %.1f", ratio(before, after, 0.5), ratio(before, after, 0.99),
                  ratio(before, after, 1));
    *worst = std::max(*worst, p99);
    return std::string(text);
  };
  const std::string operation = cell(idle.operation, under.operation, &worst_operation_);
  const std::string connect = cell(idle.connect, under.connect, &worst_connect_);
  const std::string message = cell(idle.message, under.message, &worst_message_);
  if (longest_us > worst_longest_us_) worst_name_ = name;
  worst_longest_us_ = std::max(worst_longest_us_, longest_us);
  std::printf("| %s | %s | %s | %s | %zu | %g ms | %llu MiB |\n", name.c_str(), operation.c_str(),
              connect.c_str(), message.c_str(), under.failures, longest_us / 1000,
              static_cast<unsigned long long>(ResidentBytes(attacked().pid()) >> 20));
  std::fflush(stdout);
}

void Arena::PrintSummary() const {
  const auto tell = [&](const char* what, const std::vector<double>& values, double worst) {
    std::printf("summary %s idle_p50_us=%.0f idle_p99_us=%.0f worst_p99_us=%.0f\n", what,
                Percentile(values, 0.5), Percentile(values, 0.99), worst);
  };
  tell("operation", idle_.operation, worst_operation_);
  tell("connect", idle_.connect, worst_connect_);
  tell("message", idle_.message, worst_message_);
  std::printf("summary loop idle_longest_us=%.0f worst_longest_us=%.0f worst=%s\n", idle_longest_us_,
              worst_longest_us_, worst_name_.c_str());
}

std::vector<std::string> Arena::Judge(const Attack& attack, const Measured& measured, Attackers& attackers) {
  std::vector<std::string> faults;
  for (const std::string& line : attackers.broken) faults.push_back(line);
  // Attackers of the tenant's own user use up its quotas.
  if (measured.failures != 0 && other_user_) {
    faults.push_back(std::to_string(measured.failures) +
                     " connections of the honest tenant failed: " + measured.first_failure);
  }
  for (const auto& broker : brokers_) {
    if (!broker->running()) faults.push_back("a broker has ended: " + broker->log());
  }
  for (std::string& fault : faults) fault = std::string(attack.name) + ": " + fault;
  return faults;
}

void Arena::AwaitBefore(std::vector<std::string>* faults) {
  testing::Counts now;
  const bool back = Eventually(
      [&] {
        // Each time, because handshakes that the attackers left in the broker's queues may still be accepted.
        honest_->DropVictims();
        now = attacked().Count();
        return Most(now, most_) == most_;
      },
      seconds(60));
  if (!back) faults->push_back("before: " + most_.ToString() + "; afterwards: " + now.ToString());
}

std::vector<std::string> Arena::Run(const Attack& attack) {
  most_ = Most(most_, attacked().Count());
  const std::uint64_t memory = ResidentBytes(attacked().pid());
  const Loop quiet = ReadLoop();
  const Measured idle = honest_->Measure(scale_.connects);
  const Loop loop = ReadLoop();
  idle_longest_us_ = std::max(idle_longest_us_, loop.LongestSince(quiet));
  std::vector<std::string> faults;
  {
    Attackers attackers(attack, *this, attacked().directory(), 3);
    if (!attackers.AwaitUnderway())
      faults.push_back(std::string(attack.name) + ": only " + std::to_string(attackers.underway) +
                       " of its processes began");
    const auto until = std::chrono::steady_clock::now() + seconds(scale_.seconds);
    Measured under = honest_->Measure(scale_.connects);
    while (std::chrono::steady_clock::now() < until && under.failures == 0 && attacked().running())
      under = honest_->Measure(scale_.connects);
    const double longest_us = ReadLoop().LongestSince(loop);
    attackers.Listen();
    Print(attack.name, idle, under, longest_us);
    if (scale_.stalls && longest_us > idle_longest_us_ + kStallUs) {
      char text[160];
      std::snprintf(text, sizeof text, "%s: a round of the loop took up to %g ms; without an attack %g ms",
                    attack.name, longest_us / 1000, idle_longest_us_ / 1000);
      faults.push_back(text);
    }
    for (std::string& fault : Judge(attack, under, attackers)) faults.push_back(std::move(fault));
    for (testing::Process& process : attackers.processes) process.Signal(SIGKILL);
  }
  if (!attacked().running()) return faults;
  std::vector<std::string> left;
  AwaitBefore(&left);
  for (const std::string& fault : left) faults.push_back(std::string(attack.name) + ": " + fault);
  const std::uint64_t kept = ResidentBytes(attacked().pid());
  if (kept > memory + kKeptBytes) {
    faults.push_back(std::string(attack.name) + ": the broker keeps " +
                     std::to_string((kept - memory) >> 20) + " MiB more than before");
  }
  return faults;
}

std::vector<std::string> Arena::RunAll(std::span<const Attack> attacks) {
  std::vector<std::string> faults;
  for (const Attack& attack : attacks) {
    Attackers attackers(attack, *this, attacked().directory(), 3);
    if (!attackers.AwaitUnderway()) faults.push_back(std::string(attack.name) + ": did not begin in the row");
    const Measured under = honest_->Measure(std::max(4, scale_.connects / 8));
    for (std::string& fault : Judge(attack, under, attackers)) faults.push_back(std::move(fault));
    for (testing::Process& process : attackers.processes) process.Signal(SIGKILL);
    if (!attacked().running()) return faults;
  }
  AwaitBefore(&faults);
  return faults;
}

}  // namespace nd::hostile
