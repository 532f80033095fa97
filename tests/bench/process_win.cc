// SPDX-License-Identifier: Apache-2.0
// On Windows a child is one of tests/testing/process.h, which has no descriptors of processes; it is found by
// its number.
#include "base/os/object_win.h"
#include "tests/bench/process.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>
#include <utility>

#include "tests/testing/channel.h"

namespace nd::perf {
namespace {

std::map<pid_t, testing::Process>& Children() {
  static std::map<pid_t, testing::Process> children;
  return children;
}

void PinTo(pid_t pid, int cpu) {
  const os::Handle process(::OpenProcess(PROCESS_SET_INFORMATION, FALSE, static_cast<DWORD>(pid)));
  if (!process || ::SetProcessAffinityMask(process.get(), DWORD_PTR{1} << cpu) == 0) {
    std::fprintf(stderr, "cannot run on CPU %d: Windows error %lu\n", cpu, ::GetLastError());
    std::exit(1);
  }
}

}  // namespace

Process Process::Start(const std::string& program, const std::vector<std::string>& arguments, bool report,
                       std::optional<int> cpu) {
  testing::SpawnOptions spawn;
  spawn.arguments = arguments;
  spawn.arguments.front() = program;
  Process process;
  UniqueFd theirs;
  if (report) {
    testing::MakeChannelPair(&process.report_, &theirs);
    spawn.descriptor3 = theirs.get();
  } else {
    spawn.output = "NUL";
  }
  testing::Process child = testing::Process::Spawn(spawn);
  process.pid_ = child.pid();
  if (cpu) PinTo(child.pid(), *cpu);
  Children()[child.pid()] = std::move(child);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      report_(std::move(other.report_)),
      pending_(std::move(other.pending_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(report_, other.report_);
  std::swap(pending_, other.pending_);
  return *this;
}

Process::~Process() {
  if (pid_ >= 0) Children().erase(pid_);
}

std::optional<std::string> Process::ReadLine(std::chrono::milliseconds patience) {
  const auto pipe = os::FindAs<os::FileObject>(report_.get());
  const auto give_up = std::chrono::steady_clock::now() + patience;
  while (pipe && pending_.size() <= 4096) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    DWORD waiting = 0, count = 0;
    if (::PeekNamedPipe(pipe->get(), nullptr, 0, nullptr, &waiting, nullptr) == 0) break;
    if (waiting == 0) {
      if (std::chrono::steady_clock::now() > give_up) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      continue;
    }
    char buffer[512];
    if (::ReadFile(pipe->get(), buffer, sizeof buffer, &count, nullptr) == 0) break;
    pending_.append(buffer, count);
  }
  return std::nullopt;
}

std::optional<int> Process::Wait(std::chrono::milliseconds patience) {
  const auto child = Children().find(pid_);
  if (child == Children().end()) return std::nullopt;
  const std::optional<int> status = child->second.Wait(patience);
  if (!status) return std::nullopt;
  Children().erase(child);
  pid_ = -1;
  return testing::ExitCode(*status).value_or(128);
}

void Process::Terminate() {
  const auto child = Children().find(pid_);
  if (child != Children().end()) child->second.AskToEnd();
}

}  // namespace nd::perf
