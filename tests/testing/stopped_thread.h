// SPDX-License-Identifier: Apache-2.0
// One thread of a child process that stands still, by ptrace, while the others run.
#pragma once

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace nd::testing {

// The number of the thread of this name; 0: there is none.
inline pid_t ThreadNamed(pid_t process, const std::string& name) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task/")) {
    std::string comm;
    std::getline(std::ifstream(entry.path() / "comm"), comm);
    if (comm == name) return std::stoi(entry.path().filename().string());
  }
  return 0;
}

// Stops the thread during its lifetime.
class StoppedThread {
 public:
  StoppedThread(pid_t process, const std::string& name) : thread_(ThreadNamed(process, name)) {
    stopped_ = thread_ != 0 && ::ptrace(PTRACE_SEIZE, thread_, nullptr, nullptr) == 0 &&
               ::ptrace(PTRACE_INTERRUPT, thread_, nullptr, nullptr) == 0 &&
               ::waitpid(thread_, nullptr, __WALL) == thread_;
  }
  ~StoppedThread() {
    if (stopped_) ::ptrace(PTRACE_DETACH, thread_, nullptr, nullptr);
  }
  StoppedThread(const StoppedThread&) = delete;
  StoppedThread& operator=(const StoppedThread&) = delete;
  bool found() const { return thread_ != 0; }
  // False: this environment does not allow ptrace.
  bool stopped() const { return stopped_; }

 private:
  const pid_t thread_;
  bool stopped_ = false;
};

}  // namespace nd::testing
