// SPDX-License-Identifier: Apache-2.0
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

#include "tests/testing/daemon.h"

namespace nd::testing {

void Daemon::GiveDirectory(const std::string& path, std::optional<std::uint32_t> uid) {
  chmod(path.c_str(), 0755);
  if (uid && chown(path.c_str(), *uid, *uid) != 0) std::perror("chown");
}

bool Daemon::MayListen(const std::string& socket) {
  struct stat st;
  return stat(socket.c_str(), &st) == 0;
}

std::string Daemon::Ndctl(const std::string& arguments, int* exit_status) {
  const std::string command =
      "NDBROKER_DIR=" + directory_ + "/run " + BinaryDirectory() + "/ndctl " + arguments + " 2>&1";
  std::string output;
  std::FILE* pipe = popen(command.c_str(), "re");
  if (pipe == nullptr) return "popen failed";
  char part[4096];
  std::size_t n;
  while ((n = fread(part, 1, sizeof(part), pipe)) > 0) output.append(part, n);
  const int status = pclose(pipe);
  if (exit_status != nullptr) *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return output;
}

}  // namespace nd::testing
