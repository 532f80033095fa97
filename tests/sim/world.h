// SPDX-License-Identifier: Apache-2.0
// One simulation from one seed: hosts, applications, foreign peers, faults, and the checks after every step.
//
// A step is one event applied to one broker. The same seed gives the same steps on every machine and build.
#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/app.h"
#include "tests/sim/coverage.h"
#include "tests/sim/foreign.h"
#include "tests/sim/invariants.h"
#include "tests/sim/model.h"
#include "tests/sim/trace.h"

namespace nd::sim {

inline constexpr std::uint64_t kDefaultSteps = 1000;

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint64_t steps = kDefaultSteps;  // After these steps every application ends, and nothing may be left.
  std::uint64_t until = 0;              // Not 0: stop at this step.
  bool trace = false;
  std::set<std::string> mistakes{};
};

struct Outcome {
  std::string violation;  // Empty: none.
  std::string line;       // How to reproduce it.
  std::string tail;
  std::uint64_t steps = 0, hash = 0;
  std::uint64_t connected = 0, messages = 0, reattached = 0, crashes = 0, bytes = 0;
};

class World final : public Host::Observer {
 public:
  World(WorldOptions options, Coverage& coverage);
  ~World() override;
  Outcome Run();

  bool BeforeStep() override;
  void AfterStep(Host& host, const core::Event& event, const core::Actions& actions) override;
  void OnStart(Host& host) override;
  void OnCrash(Host& host) override;
  void OnSilence(Host&) override { coverage_.Saw("harness", "silent client ended"); }
  void OnLostHandOff(Host&) override { coverage_.Saw("harness", "hand-off failed"); }
  void OnDuplicate(Host&) override { coverage_.Saw("harness", "duplicate"); }
  void OnShortage(Host& host, bool met) override;
  bool Broken(const char* name) override;
  void InjectFault(core::Actions* actions) override;
  bool IsAlive(const Host& host, const core::Process& process) override;

 private:
  struct Watcher {
    std::unique_ptr<Model> model;
    Ledger ledger;
    Duration jumped{};
    // Of this life of the broker since its last step.
    std::unique_ptr<Tables> tables;
    // The calls of the journal's medium when the journal was compared last. A step makes that stale as well.
    std::optional<std::uint64_t> compared;
  };

  void Build();
  core::Policy MakePolicy();
  core::Settings MakeSettings();
  void Turn();          // Lets one application or peer act, and schedules the next turn.
  void Administrate();  // Sometimes acts as the administrator, the provider, or a fault.
  void WindDown();
  void CheckRest();
  void Violation(const std::string& what);
  void CheckStep(Host& host, const core::Event& event, const core::Actions& actions);

  const WorldOptions options_;
  Coverage& coverage_;
  Dice dice_;
  Trace trace_;
  Schedule schedule_;
  Net net_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<Watcher> watchers_;
  Common common_;
  std::vector<std::unique_ptr<App>> apps_;
  Foreign foreign_;
  std::uint64_t steps_ = 0, crashes_ = 0;
  std::uint32_t crash_chance_ = 0;
  bool stopped_ = false;
  std::string violation_;
};

}  // namespace nd::sim
