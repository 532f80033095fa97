// SPDX-License-Identifier: Apache-2.0
// Real brokers and real applications that may be killed at any time: which of them live, their resources, and
// the comparison after a restart. One thread.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/crash/census.h"
#include "tests/crash/hold.h"
#include "tests/testing/actor.h"
#include "tests/testing/daemon.h"

namespace nd::crash {

using namespace nd::testing;  // NOLINT: steps speak in its words.

// Local: one broker, shared memory. Iwarp: two brokers, TCP between 127.0.0.2 and 127.0.0.3.
struct Mode {
  bool local = true;
  bool tcp = false;  // The adapters' mode.
  std::string name() const { return std::string(local ? "Local" : "Iwarp") + (tcp ? "Tcp" : "Separate"); }
};

// Processes, as bits. On one broker kBrokerA and kBrokerP are the same.
enum Who : unsigned { kNobody = 0, kA = 1, kP = 2, kBrokerA = 4, kBrokerP = 8 };
std::string Name(unsigned who, const Mode& mode);

class Stage {
 public:
  explicit Stage(const Mode& mode);
  ~Stage();
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  const std::string& error() const { return error_; }
  const Mode& mode() const { return mode_; }

  // 0: the active side, 1: the passive one.
  Actor& app(int side) { return *apps_[side]; }
  Daemon& broker(int side) { return *brokers_[mode_.local ? 0 : static_cast<std::size_t>(side)]; }
  Hold& hold(Who who);
  Address address(int side, std::uint16_t port) const;
  // Returns a port that no step has used, so that a connection in TIME_WAIT does not affect the next one.
  std::uint16_t NewPort() { return next_port_++; }

  void Pause(unsigned who);
  // Sends SIGKILL to all of them before it waits for the first. Stopped survivors continue. `join` waits for
  // calls into them.
  void Kill(unsigned who, const std::function<void()>& join = {});
  bool alive(Who who) const { return (dead_ & Same(who)) == 0; }
  unsigned dead() const { return dead_; }

  // Starts a killed broker, whose shim may be armed. Returns whether it serves; Revive() starts it if not.
  bool TryStart(int side);
  // That broker was killed and serves again.
  void Started(Who who) { dead_ &= ~Same(who); }
  // Starts the killed processes again and waits until every application has its session.
  void Revive();
  // Closes the objects of the applications, lets them connect once more, and compares the resources. Returns
  // one line for each difference.
  std::vector<std::string> CloseAndCompare();
  // Describes the state of each process, for a step that hangs.
  std::string Dump();

 private:
  unsigned Same(unsigned who) const;
  void StartBroker(int side);
  void StartApp(int side);
  // Makes and ends one connection, after which resources of first use are open. Returns "" or the failure.
  std::string Exercise();
  std::vector<Counts> BrokerCounts();
  std::vector<Census> Censuses();
  pid_t PidOf(Who who);

  Mode mode_;
  std::string directory_, error_;
  std::vector<std::unique_ptr<Daemon>> brokers_;
  std::unique_ptr<Actor> apps_[2];
  std::unique_ptr<Hold> holds_[4];
  unsigned dead_ = 0, paused_ = 0;
  std::uint16_t next_port_ = 5000;
  std::vector<Counts> counts_;
  std::vector<Census> censuses_;  // A, P, then each broker.
};

// Sends a message each way through new receives. Returns "" or the failure.
std::string Traffic(Actor& a, const Qp& aq, Actor& p, const Qp& pq);

}  // namespace nd::crash
