// SPDX-License-Identifier: Apache-2.0
// Brokers and applications are kept from test to test. Anything that a test leaves behind is an error.
#include "tests/integrity/world.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <thread>

#include "tests/testing/network.h"

namespace nd::integrity {
namespace {

using nd::testing::BinaryDirectory;
using nd::testing::Eventually;

std::map<Transport, std::unique_ptr<World>>& Worlds() {
  static std::map<Transport, std::unique_ptr<World>> worlds;
  return worlds;
}

constexpr char kAllowEverything[] = "name = \"tests\"\nquota = { sessions = 10000, connectors = 100000 }";

// Outside a private network another program may hold the usual port.
std::uint16_t TcpPort() {
  return nd::testing::InPrivateNetwork() ? kTcpPort : static_cast<std::uint16_t>(20000 + getpid() % 5000);
}

}  // namespace

World::World(Transport transport, WorldOptions options) {
  const int count = transport == Transport::kLocal ? 1 : 2;
  for (int i = 0; i < count; ++i) {
    const bool elsewhere = i == 1 && options.passive_tcp_port != 0;
    nd::testing::DaemonOptions daemon;
    daemon.adapters = {"name = \"soft0\"\naddresses = [\"127.0.0." + std::to_string(i + 2) +
                       "\"]\ntcp-port = " + std::to_string(elsewhere ? options.passive_tcp_port : TcpPort()) +
                       "\ncrc = " + (options.crc ? "true" : "false")};
    daemon.rules = {kAllowEverything};
    brokers_.push_back(std::make_unique<nd::testing::Daemon>(daemon));
    if (!brokers_.back()->Start()) {
      ADD_FAILURE() << "a broker does not start:\n" << brokers_.back()->log();
      return;
    }
  }
  for (int side = 0; side < 2; ++side) StartApp(side);
}

World::~World() {
  for (auto& app : apps_) app.Stop();
  for (auto& broker : brokers_) {
    if (broker->running() && !broker->Stop()) ADD_FAILURE() << "a broker did not end:\n" << broker->log();
  }
}

World& World::Shared(Transport transport) {
  if (Worlds().count(transport) == 0) {
    Worlds().clear();  // The brokers of the worlds use the same addresses.
    Worlds()[transport] = std::make_unique<World>(transport);
  }
  return *Worlds()[transport];
}
void World::Forget() {
  Worlds().clear();
}

void World::StartApp(int side) {
  nd::testing::SpawnOptions spawn;
  spawn.arguments = {BinaryDirectory() + "/nd_integrity", "--app"};
  apps_[side].Start(spawn);
}

std::string World::Address(int side) const {
  return std::string("127.0.0.") + (side == 0 || brokers_.size() == 1 ? "2" : "3");
}

std::string World::Run(int side, const std::string& words) {
  std::string report = apps_[side].Call("active=" + std::to_string(side == 0 ? 1 : 0) +
                                        " broker=" + broker(side).directory() + " from=" + Address(0) +
                                        ":0 to=" + Address(1) + ":" + std::to_string(kNdPort) + " " + words);
  if (report.empty()) return "the application is gone without a word";
  return report;
}

World::Reports World::Both(const std::string& words) {
  Reports reports;
  for (int side = 0; side < 2; ++side) {
    if (!apps_[side].process().running()) StartApp(side);
  }
  std::thread passive([&] { reports.passive = Run(1, words); });
  reports.active = Run(0, words);
  if (reports.active.substr(0, 2) != "ok") {
    // The other side may wait for a message that never comes.
    if (!Eventually([&] { return !reports.passive.empty(); }, std::chrono::seconds(5))) {
      apps_[1].process().Signal(SIGKILL);
    }
  }
  passive.join();
  EXPECT_TRUE(reports.ok()) << words << "\nactive:  " << reports.active << "\npassive: " << reports.passive;
  for (int side = 0; side < 2; ++side) {
    const std::string& report = side == 0 ? reports.active : reports.passive;
    if (report.substr(0, 2) != "ok") apps_[side].process().Kill();
  }
  return reports;
}

void World::ExpectNothingLeft() {
  for (auto& broker : brokers_) {
    nd::testing::Counts counts;
    EXPECT_TRUE(Eventually([&] {
      counts = broker->Count();
      return counts.connections + counts.listeners + counts.queue_pairs + counts.ports + counts.sessions == 0;
    })) << "left at a broker: "
        << counts.ToString();
  }
}

std::uint64_t ParseAmount(const std::string& text) {
  char* end = nullptr;
  std::uint64_t amount = std::strtoull(text.c_str(), &end, 10);
  switch (*end) {
    case 'K':
      return amount << 10;
    case 'M':
      return amount << 20;
    case 'G':
      return amount << 30;
    case '\0':
      return amount;
    default:
      return 0;
  }
}

}  // namespace nd::integrity
