// SPDX-License-Identifier: Apache-2.0
// verbs_answers ADDRESS ABSENT [--here ADDRESS] [--passive-by COMMAND] [--at-once N] [SCENARIO...]: runs the
// scenarios, each with two fresh processes, and prints what each end saw. ADDRESS is one of this host's
// devices, ABSENT an address of its network that nobody has. COMMAND starts the passive ends, for instance in
// another network namespace; then the scenarios with one end use the address after --here.
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <sstream>
#include <vector>

#include "tests/verbs-programs/answers/end.h"

namespace nd::verbs_programs {
namespace {

constexpr unsigned kPatience = 150;  // Seconds for an end. The kernels of the virtual machine are slow.

const Row* Find(const std::string& name) {
  for (const Row* row : {kConnections, kRequests, kObjects}) {
    for (; row->name != nullptr; ++row) {
      if (name == row->name) return row;
    }
  }
  return nullptr;
}

// As a process of its own: verbs_answers --end active|passive SCENARIO ADDRESS ABSENT SOCKET.
int RunEnd(char** words) {
  const Row* row = Find(words[1]);
  if (row == nullptr) return 2;
  alarm(kPatience);
  const bool passive = std::strcmp(words[0], "passive") == 0;
  End end({words[2], words[3]}, std::string(words[1]) + "." + words[0], std::atoi(words[4]));
  (passive ? row->passive : row->active)(end);
  return 0;
}

pid_t Start(const std::vector<std::string>& prefix, const char* which, const char* scenario,
            const Place& place, int peer, int other, int output) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  close(other);
  dup2(output, STDOUT_FILENO);
  std::vector<std::string> words = prefix;
  for (std::string word : {std::string("/proc/self/exe"), std::string("--end"), std::string(which),
                           std::string(scenario), place.address, place.absent, std::to_string(peer)}) {
    words.push_back(std::move(word));
  }
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) std::_Exit(2);
  words[prefix.size()] = self;
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  execvp(arguments[0], arguments.data());
  std::perror(arguments[0]);
  std::_Exit(2);
}

void Finish(pid_t pid, int output, const char* scenario, const char* which) {
  int status = 0;
  waitpid(pid, &status, 0);
  char bytes[4096];
  lseek(output, 0, SEEK_SET);
  for (ssize_t size; (size = read(output, bytes, sizeof bytes)) > 0;)
    std::fwrite(bytes, 1, static_cast<std::size_t>(size), stdout);
  close(output);
  if (WIFSIGNALED(status)) {
    std::printf("%s.%s ends: by signal %s\n", scenario, which, sigabbrev_np(WTERMSIG(status)));
  } else if (WEXITSTATUS(status) != 0) {
    std::printf("%s.%s ends: with status %d\n", scenario, which, WEXITSTATUS(status));
  }
  std::fflush(stdout);
}

// The processes of a scenario.
struct Running {
  const Row* row;
  pid_t passive, active;  // -1: none.
  int of_passive, of_active;
};

Running Begin(const Row& row, const Place& place, const std::vector<std::string>& passive_by) {
  int ends[2];
  Running running{&row, -1, -1, memfd_create("passive", MFD_CLOEXEC), memfd_create("active", MFD_CLOEXEC)};
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) std::exit(2);
  if (row.passive != nullptr) {
    running.passive = Start(passive_by, "passive", row.name, place, ends[0], ends[1], running.of_passive);
  }
  running.active = Start({}, "active", row.name, place, ends[1], ends[0], running.of_active);
  close(ends[0]);
  close(ends[1]);
  return running;
}

void Report(const Running& running) {
  if (running.passive > 0) Finish(running.passive, running.of_passive, running.row->name, "passive");
  Finish(running.active, running.of_active, running.row->name, "active");
}

}  // namespace
}  // namespace nd::verbs_programs

int main(int argc, char** argv) {
  using namespace nd::verbs_programs;  // NOLINT
  if (argc == 7 && std::strcmp(argv[1], "--end") == 0) return RunEnd(argv + 2);
  std::vector<std::string> passive_by, wanted;
  std::string here = argc > 1 ? argv[1] : "";
  std::size_t at_once = 1;
  if (argc < 3) {
    std::fputs(
        "usage: verbs_answers ADDRESS ABSENT [--here ADDRESS] [--passive-by COMMAND] [--at-once N] "
        "[SCENARIO...]\n",
        stderr);
    return 2;
  }
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--passive-by") == 0 && i + 1 < argc) {
      std::istringstream words(argv[++i]);
      for (std::string word; words >> word;) passive_by.push_back(word);
    } else if (std::strcmp(argv[i], "--here") == 0 && i + 1 < argc) {
      here = argv[++i];
    } else if (std::strcmp(argv[i], "--at-once") == 0 && i + 1 < argc) {
      at_once = std::strtoul(argv[++i], nullptr, 10);
    } else if (Find(argv[i]) == nullptr) {
      std::fprintf(stderr, "%s is no scenario\n", argv[i]);
      return 2;
    } else {
      wanted.emplace_back(argv[i]);
    }
  }
  std::deque<Running> running;
  for (const Row* row : {kConnections, kRequests, kObjects}) {
    for (; row->name != nullptr; ++row) {
      if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), row->name) == wanted.end()) continue;
      if (running.size() >= at_once) {
        Report(running.front());
        running.pop_front();
      }
      running.push_back(Begin(*row, {row->passive != nullptr ? argv[1] : here, argv[2]}, passive_by));
    }
  }
  for (const Running& one : running) Report(one);
  return 0;
}
