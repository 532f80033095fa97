// SPDX-License-Identifier: Apache-2.0
// Tests only: a real daemon that can be killed and restarted, and processes of this test program that attack
// its ports meanwhile.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <nd/nd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/testing/daemon.h"
#include "tests/testing/local_end.h"
#include "tests/testing/process.h"

namespace nd::state {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::ConnectTo;
using testing::End;
using testing::Eventually;
using testing::Flat;
using testing::Local;
using testing::OpenAt;

inline constexpr std::uint16_t kPort = 7000, kOther = 7001;

// The results of an attacker, in a file that both map.
struct Score {
  std::atomic<std::uint64_t> refused;  // Refusals because the port is kept for its holder.
  std::atomic<std::uint64_t> thefts;
  std::atomic<bool> stop;
};

class SharedScore {
 public:
  explicit SharedScore(const std::string& path) {
    const UniqueFd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
    static_cast<void>(::fchmod(fd.get(), 0666));
    if (::ftruncate(fd.get(), sizeof(Score)) == 0) {
      void* at = ::mmap(nullptr, sizeof(Score), PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
      if (at != MAP_FAILED) score_ = static_cast<Score*>(at);
    }
  }
  Score* operator->() { return score_; }

 private:
  Score* score_ = nullptr;
};

class RestartTest : public ::testing::Test {
 protected:
  void StartBroker(const std::string& broker_section, const std::string& mode = "separate") {
    testing::DaemonOptions options;
    options.sections["broker"] = broker_section;
    // Below the ephemeral range of the host, because any program could be given such a port while the broker
    // is away.
    options.adapters = {"mode = \"" + mode + "\"\naddresses = [\"127.0.0.1\"]\ntcp-port = " +
                        std::to_string(25000 + ::getpid() % 7000)};
    daemon_ = std::make_unique<testing::Daemon>(options);
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
    adapter_ = Open();
  }
  void TearDown() override {
    for (auto& [score, process] : attackers_) {
      score->stop = true;
      EXPECT_TRUE(process.Wait(seconds(10)).has_value()) << "an attacker hangs";
    }
    std::filesystem::remove_all(scores_);
  }
  Adapter Open() {
    OpenOptions options;
    options.broker = daemon_->directory();
    Result<Adapter> adapter = Adapter::Open(options);
    EXPECT_TRUE(adapter.ok()) << adapter.status().ToString();
    return adapter.ok() ? *adapter : Adapter();
  }
  testing::Process Run(std::vector<std::string> arguments, std::optional<uid_t> uid = {}) {
    return testing::Process::OfThisBuild("state_restart_test", std::move(arguments), uid);
  }
  // Starts one attacker of this user and one of another user.
  void StartAttackers() {
    scores_ = testing::MakeTempDirectory("ndscore-");
    ::chmod(scores_.c_str(), 0755);
    std::vector<std::optional<uid_t>> users = {std::nullopt};
    if (::geteuid() == 0) {
      users.emplace_back(65534);
    } else {
      std::printf("SKIPPED LOUDLY: no attacker of another user without root\n");
    }
    for (std::size_t i = 0; i < users.size(); ++i) {
      const std::string path = scores_ + "/" + std::to_string(i);
      SharedScore score(path);
      attackers_.emplace_back(score, Run({"--attack", daemon_->directory(), path}, users[i]));
    }
  }
  std::uint64_t Thefts() {
    std::uint64_t thefts = 0;
    for (auto& [score, process] : attackers_) thefts += score->thefts;
    return thefts;
  }
  Listener Listen(std::uint16_t port) {
    Listener listener = adapter_.CreateListener().value();
    const Status bound = listener.Bind(Local(port));
    EXPECT_TRUE(bound.ok()) << bound.ToString();
    EXPECT_TRUE(listener.Listen().ok());
    return listener;
  }
  void KillAndStart() {
    daemon_->Kill();
    ASSERT_TRUE(daemon_->Start()) << daemon_->log();
  }
  // Returns true when the listener listens. Its owner may have bound the port and not yet have called Listen.
  bool Listens(std::uint16_t port) {
    const Flat listeners = daemon_->Admin("ListListeners");
    for (std::size_t i = 0; i < listeners.Count("items"); ++i) {
      const std::string row = "items." + std::to_string(i);
      if (listeners[row + ".local.port"] == std::to_string(port) && listeners[row + ".state"] == "listening")
        return true;
    }
    return false;
  }
  // Returns the kind in the row of ListPorts for this port; "" when there is none.
  std::string KindOf(std::uint16_t port) {
    const Flat ports = daemon_->Admin("ListPorts", "id: \"" + Local(port).ToString() + "\"");
    return ports.Count("items") == 0 ? "" : ports["items.0.kind"];
  }

  std::unique_ptr<testing::Daemon> daemon_;
  Adapter adapter_;
  std::string scores_;
  std::vector<std::pair<SharedScore, testing::Process>> attackers_;
};

}  // namespace nd::state
