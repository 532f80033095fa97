// SPDX-License-Identifier: Apache-2.0
// The brokers and the two application processes of a test. One thread, except for Both().
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tests/testing/channel.h"
#include "tests/testing/daemon.h"

namespace nd::integrity {

// Local: one broker, shared memory. Iwarp: two brokers, TCP between 127.0.0.2 and 127.0.0.3.
enum class Transport { kLocal, kIwarp };
inline std::string NameOf(Transport transport) {
  return transport == Transport::kLocal ? "Local" : "Iwarp";
}

struct WorldOptions {
  bool crc = true;
  // Iwarp: the port of the passive broker when a relay uses the usual port; 0: the usual port.
  std::uint16_t passive_tcp_port = 0;
};

inline constexpr std::uint16_t kTcpPort = 4794;
inline constexpr std::uint16_t kNdPort = 7000;

class World {
 public:
  explicit World(Transport transport, WorldOptions options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  static World& Shared(Transport transport);
  static void Forget();

  // Starts `words` on both sides, the passive one first, and waits for both. Fails unless both return "ok
  // ...".
  struct Reports {
    std::string active, passive;
    bool ok() const { return active.substr(0, 2) == "ok" && passive.substr(0, 2) == "ok"; }
  };
  Reports Both(const std::string& words);
  // Checks that the brokers hold no object and that the applications did not grow.
  void ExpectNothingLeft();
  nd::testing::Daemon& broker(int side) { return *brokers_[brokers_.size() == 1 ? 0 : side]; }

 private:
  std::vector<std::unique_ptr<nd::testing::Daemon>> brokers_;
  nd::testing::Channel apps_[2];
  void StartApp(int side);
  std::string Address(int side) const;
  std::string Run(int side, const std::string& words);
};

// Settings from the command line and the environment.
struct Settings {
  bool full = false;         // NDBROKER_FULL=1
  std::uint64_t bytes = 0;   // --bytes 10G: of each transport and kind of operation.
  std::uint64_t rounds = 0;  // --rounds 1000000: of each rule of order.
  std::uint64_t flips = 0;   // --flips 2000: between two brokers.
  std::uint64_t frames = 0;  // --frames 50000: damaged frames at a queue pair.
};
const Settings& GetSettings();
// Parses a number with an optional suffix K, M or G; returns 0 when it is malformed.
std::uint64_t ParseAmount(const std::string& text);

}  // namespace nd::integrity
