// SPDX-License-Identifier: Apache-2.0
// The pipes of the broker have no files; their access lists are made by this process alone.
#include "daemon/admin/health_facts.h"

#include <windows.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "base/clock.h"
#include "base/os/file.h"
#include "base/os/self.h"
#include "base/os/socket.h"
#include "daemon/ops/logging.h"
#include "daemon/ops/process.h"

namespace nd::service {
namespace {

constexpr auto kConnectPatience = std::chrono::milliseconds(500);
constexpr std::int64_t kProgramIsNewer = 1735689600;  // 2025-01-01.

HealthFacts::File FileAt(const std::string& path) {
  os::FileFacts found;
  const int error = os::Look(path, &found);
  return {path, error, found.owner, found.permissions, error == 0 ? found.size : 0};
}

int ConnectError(const Address& address) {
  const os::Dialled dialled =
      os::ConnectTcp(address.IpToString(), address.port(), SystemClock().Now() + kConnectPatience);
  return dialled.socket ? 0 : dialled.error != 0 ? dialled.error : EHOSTUNREACH;
}

// The time since the start of the system that it was asleep.
Duration Suspended() {
  ULONGLONG awake = 0;  // In units of 100 ns.
  if (::QueryUnbiasedInterruptTime(&awake) == 0) return {};
  const auto all = std::chrono::milliseconds(::GetTickCount64());
  return std::max<Duration>(Duration::zero(), all - std::chrono::nanoseconds(awake * 100));
}

}  // namespace

void GatherHealth(const std::string& directory, const std::vector<Address>& ports, HealthFacts* facts) {
  facts->fds_open = ops::OpenFds();
  facts->fd_limit = ops::FdLimit();
  facts->own_uid = os::UserNumber();
  facts->directory = FileAt(directory);
  facts->initial_network = true;  // Windows has one network.
  facts->suspended = Suspended();
  facts->clock_is_set =
      std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()) >= kProgramIsNewer;
  facts->log_level = ops::LogLevel();
  for (const Address& port : ports) facts->ports.push_back({port.ToString(), ConnectError(port)});
  facts->journal_file = FileAt(facts->journal_file.path);
  if (!facts->history) return;
  facts->history_file = FileAt(facts->history_file.path);
  facts->history_file.bytes += FileAt(facts->history_file.path + "-wal").bytes;
}

}  // namespace nd::service
