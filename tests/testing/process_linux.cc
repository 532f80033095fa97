// SPDX-License-Identifier: Apache-2.0
// Children are started by fork and exec, which allows a change of namespace and user in between.
#include "tests/testing/process.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace nd::testing {
namespace {

[[noreturn]] void Exec(const SpawnOptions& options, char* const* argv, char* const* envp, pid_t parent) {
  const auto die = [](const char* what) {
    std::perror(what);
    _exit(127);
  };
  if (options.nice != 0) {
    const sched_param normal{};
    if (sched_setscheduler(0, SCHED_OTHER | SCHED_RESET_ON_FORK, &normal) != 0) die("sched_setscheduler");
    if (setpriority(PRIO_PROCESS, 0, options.nice) != 0) die("setpriority");
  }
  if (options.network_namespace >= 0 && setns(options.network_namespace, CLONE_NEWNET) != 0) die("setns");
  if (options.uid) {
    if (setgroups(0, nullptr) != 0 || setgid(*options.uid) != 0 || setuid(*options.uid) != 0) die("setuid");
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // Set again after setuid, which clears it.
  if (getppid() != parent) _exit(127);
  if (!options.output.empty()) {
    const int log = open(options.output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0 || dup2(log, 1) < 0 || dup2(log, 2) < 0) die("open output");
  }
  if (options.descriptor3 == 3) {
    fcntl(3, F_SETFD, 0);
  } else if (options.descriptor3 >= 0) {
    if (dup2(options.descriptor3, 3) < 0) die("dup2");
  }
  close_range(options.descriptor3 >= 0 ? 4 : 3, ~0U, CLOSE_RANGE_CLOEXEC);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);
  execve(argv[0], argv, envp);
  die(argv[0]);
  _exit(127);
}

}  // namespace

Process Process::Spawn(const SpawnOptions& options) {
  std::vector<char*> argv, envp;
  for (const std::string& argument : options.arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  for (char** e = environ; *e != nullptr; ++e) envp.push_back(*e);
  for (const std::string& e : options.environment) envp.push_back(const_cast<char*>(e.c_str()));
  envp.push_back(nullptr);
  const pid_t parent = getpid();
  Process process;
  process.pid_ = fork();
  if (process.pid_ == 0) Exec(options, argv.data(), envp.data(), parent);
  return process;
}

void Process::Signal(int signal) const {
  if (pid_ > 0 && !status_) kill(pid_, signal);
}

void Process::AskToEnd() const {
  Signal(SIGTERM);
}

void Process::Pause() const {
  Signal(SIGSTOP);
  const bool still = Eventually([&] {
    std::error_code error;
    for (const auto& task :
         std::filesystem::directory_iterator("/proc/" + std::to_string(pid_) + "/task", error)) {
      std::ifstream file(task.path() / "stat");
      std::string line;
      std::getline(file, line);
      const std::size_t name_end = line.rfind(") ");
      if (name_end != std::string::npos && line[name_end + 2] != 'T') return false;
    }
    return true;
  });
  if (!still) std::fprintf(stderr, "process %d does not stop\n", pid_);
}

void Process::Resume() const {
  Signal(SIGCONT);
}

void Process::Kill() {
  if (pid_ <= 0 || status_) return;
  kill(pid_, SIGKILL);
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) continue;
  status_ = status;
}

std::optional<int> Process::Wait(std::chrono::milliseconds timeout) {
  if (pid_ <= 0 || status_) return status_;
  Eventually(
      [&] {
        int status = 0;
        if (waitpid(pid_, &status, WNOHANG) != pid_) return false;
        status_ = status;
        return true;
      },
      timeout);
  return status_;
}

std::optional<int> ExitCode(int status) {
  return WIFEXITED(status) ? std::optional(WEXITSTATUS(status)) : std::nullopt;
}

int FatalSignal(int status) {
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

int OwnDescriptor3() {
  return 3;
}

bool HasFork() {
  return true;
}

void IgnoreBrokenStreams() {
  std::signal(SIGPIPE, SIG_IGN);
}

std::size_t AllowManyDescriptors() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  const rlim_t most = std::max<rlim_t>(limit.rlim_max, 1 << 18);
  const rlimit high{most, most};
  if (::setrlimit(RLIMIT_NOFILE, &high) == 0) return most;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  return limit.rlim_cur;
}

std::string BinaryDirectory() {
  if (const char* given = std::getenv("NDBROKER_BIN")) return given;
  return std::filesystem::read_symlink("/proc/self/exe").parent_path();
}

std::string MakeTempDirectory(const std::string& prefix) {
  const char* base = std::getenv("TMPDIR");
  std::string path = std::string(base != nullptr ? base : "/tmp") + "/" + prefix + "XXXXXX";
  if (mkdtemp(path.data()) == nullptr) {
    std::perror("mkdtemp");
    std::abort();
  }
  return path;
}

void SetVariable(const char* name, const char* value) {
  if (value == nullptr) {
    ::unsetenv(name);
  } else {
    ::setenv(name, value, 1);
  }
}

std::size_t CountDescriptors(pid_t pid) {
  std::error_code error;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator it("/proc/" + std::to_string(pid) + "/fd", error), end;
       !error && it != end; it.increment(error)) {
    ++count;
  }
  return count;
}

}  // namespace nd::testing
