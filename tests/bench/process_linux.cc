// SPDX-License-Identifier: Apache-2.0
// exec follows fork at once, so that no state of gRPC exists on both sides of a fork.
#include "tests/bench/process.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace nd::perf {
namespace {

[[noreturn]] void Die(const char* what) {
  std::perror(what);
  std::exit(1);
}

bool Readable(int fd, std::chrono::milliseconds patience) {
  pollfd poll_fd{fd, POLLIN, 0};
  return ::poll(&poll_fd, 1, static_cast<int>(patience.count())) == 1;
}

bool PinTo(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  return sched_setaffinity(0, sizeof(one), &one) == 0;
}

}  // namespace

Process Process::Start(const std::string& program, const std::vector<std::string>& arguments, bool report,
                       std::optional<int> cpu) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  int pipe_fds[2] = {-1, -1};
  if (report && pipe2(pipe_fds, O_CLOEXEC) != 0) Die("pipe");
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) Die("fork");
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(1);  // The parent died before it could be watched.
    if (report) {
      if (pipe_fds[1] == kReportFd) {
        fcntl(kReportFd, F_SETFD, 0);
      } else {
        dup2(pipe_fds[1], kReportFd);
      }
    } else {
      dup2(open("/dev/null", O_WRONLY | O_CLOEXEC), STDOUT_FILENO);
    }
    if (cpu && !PinTo(*cpu)) {
      std::fprintf(stderr, "cannot run on CPU %d: %s\n", *cpu, std::strerror(errno));
      _exit(127);
    }
    execv(program.c_str(), argv.data());
    std::perror(program.c_str());
    _exit(127);
  }
  if (report) close(pipe_fds[1]);
  Process process;
  process.pid_ = pid;
  process.pidfd_.reset(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!process.pidfd_) Die("pidfd_open");
  process.report_.reset(pipe_fds[0]);
  return process;
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pidfd_(std::move(other.pidfd_)),
      report_(std::move(other.report_)),
      pending_(std::move(other.pending_)) {}

Process& Process::operator=(Process&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pidfd_, other.pidfd_);
  std::swap(report_, other.report_);
  std::swap(pending_, other.pending_);
  return *this;
}

Process::~Process() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

std::optional<std::string> Process::ReadLine(std::chrono::milliseconds patience) {
  while (true) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (!Readable(report_.get(), patience)) return std::nullopt;
    char buffer[512];
    const ssize_t count = read(report_.get(), buffer, sizeof(buffer));
    if (count <= 0 || pending_.size() > 4096) return std::nullopt;
    pending_.append(buffer, static_cast<std::size_t>(count));
  }
}

std::optional<int> Process::Wait(std::chrono::milliseconds patience) {
  if (pid_ < 0 || !Readable(pidfd_.get(), patience)) return std::nullopt;
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void Process::Terminate() {
  if (pid_ >= 0) kill(pid_, SIGTERM);
}

}  // namespace nd::perf
