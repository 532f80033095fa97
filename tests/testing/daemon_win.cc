// SPDX-License-Identifier: Apache-2.0
#include <fstream>
#include <sstream>

#include "tests/testing/daemon.h"

namespace nd::testing {

// The directory of a user is closed to other users.
void Daemon::GiveDirectory(const std::string& /*path*/, std::optional<std::uint32_t> /*uid*/) {}

// Sockets are pipes, which are in no directory; a client without a broker is refused at once.
bool Daemon::MayListen(const std::string& /*socket*/) {
  return true;
}

std::string Daemon::Ndctl(const std::string& arguments, int* exit_status) {
  SpawnOptions spawn;
  spawn.arguments = {BinaryDirectory() + "/ndctl"};
  std::istringstream words(arguments);
  for (std::string word; words >> word;) spawn.arguments.push_back(word);
  spawn.environment = {"NDBROKER_DIR=" + directory()};
  spawn.output = directory_ + "/ndctl";
  { const std::ofstream empty(spawn.output, std::ios::trunc); }
  Process process = Process::Spawn(spawn);
  const std::optional<int> status = process.Wait(std::chrono::seconds(60));
  if (exit_status != nullptr) *exit_status = status ? ExitCode(*status).value_or(-1) : -1;
  process.Kill();
  std::ifstream file(spawn.output);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace nd::testing
