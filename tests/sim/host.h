// SPDX-License-Identifier: Apache-2.0
// One simulated machine: the real core in a shell that can die between any two actions and restart.
//
// Events are queued and applied one by one, and actions are executed in order, as in the daemon. Sessions are
// streams in both directions and a lane for descriptors. Each has its own delay and keeps its order.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "daemon/core/broker.h"
#include "tests/sim/client.h"
#include "tests/sim/host_cm.h"
#include "tests/sim/memory.h"
#include "tests/sim/sim_medium.h"

namespace nd::sim {

struct HostFaults {
  std::uint32_t crash = 0;          // Before each action.
  std::uint32_t lane_fails = 0;     // Each hand-over: EAGAIN for ever, EPIPE, ETOOMANYREFS, EMFILE.
  std::uint32_t duplicate = 0;      // Each operation arrives a second time, later.
  std::uint32_t journal_fails = 0;  // Each step: the disk is full for a while, or a write is cut short.
  std::uint32_t no_memory = 0;      // Each step, handshake or journal entry: an allocation inside it fails.
};

// For so long a new broker keeps ports and takes connections back.
inline constexpr Duration kReclaimGrace = std::chrono::seconds(5);

class Host final : public provider::CmSink {
 public:
  // The interface of the simulation: it observes each step and injects faults.
  class Observer {
   public:
    virtual ~Observer() = default;
    // Returns false to end the run here; the event is then not applied.
    virtual bool BeforeStep() = 0;
    virtual void AfterStep(Host& host, const core::Event& event, const core::Actions& actions) = 0;
    virtual void OnStart(Host& host) = 0;
    virtual void OnCrash(Host& host) = 0;
    // Returns whether a test-only fault of the harness is on; see faults.h.
    virtual bool Broken(const char* name) = 0;
    virtual void OnSilence(Host& host) = 0;
    virtual void OnLostHandOff(Host& host) = 0;
    virtual void OnDuplicate(Host& host) = 0;
    // The broker dies of a memory shortage. `met`: an allocation failed; otherwise the work needed fewer
    // allocations.
    virtual void OnShortage(Host& host, bool met) = 0;
    // Changes the actions as a fault of the core would.
    virtual void InjectFault(core::Actions* actions) = 0;
    // Returns whether this process still runs.
    virtual bool IsAlive(const Host& host, const core::Process& process) = 0;
  };
  struct Options {
    int number = 0;
    HostCm::Options cm;
    core::Settings settings;
    std::uint32_t reclaim_slice = 64;
    core::Policy policy;
    std::uint64_t seed = 0;
  };

  // The proofs in this host's hand-overs, the same in every life of its broker.
  provider::Bytes Prove(const core::ConnectionFacts& facts) const;

  Host(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric, Observer& observer);
  ~Host() override;

  HostFaults faults;

  void Start();
  // Kills the broker at the next opportunity between two actions, or now if none is running.
  void Crash();
  // Stops the broker in order.
  void Stop();
  bool up() const { return broker_ != nullptr; }

  // A client connects. Returns 0 when there is no broker.
  Token Open(Client& client, const core::Identity& identity);
  void Submit(Token token, core::OpId op_id, const session::Operation& op);
  // The client closed its end of the session (it died, or left).
  void HangUp(Token token);
  // The client reads again.
  void Readable(Token token);
  void Admin(core::Event event);

  const core::Broker& broker() const { return *broker_; }
  HostCm& cm() { return *cm_; }
  const Options& options() const { return options_; }
  Options& mutable_options() { return options_; }
  int number() const { return options_.number; }
  std::uint32_t epoch() const { return epoch_; }
  std::size_t sessions() const { return sessions_.size(); }
  std::optional<core::SessionId> SessionOf(Token token) const;
  state::JournalState journal() const { return journal_->state(); }
  // Returns the leases that a broker would find if it started now.
  std::vector<core::Lease> JournaledLeases() const;
  // Of the medium of the journal; the journal and its state change with one of them only.
  std::uint64_t journal_calls() const { return disk_->calls; }
  const std::vector<core::Lease>& leases() const { return leases_; }  // The leases at the start of this life.
  Time leases_until() const { return leases_until_; }
  bool settled() const { return events_.empty() && !running_ && !crash_wanted_; }

  // provider::CmSink. Each callback only queues an event.
  void OnReserved(provider::EndpointId endpoint, const Status& status) override;
  void OnRequest(const provider::InboundRequest& request) override;
  void OnReached(provider::CmId id) override;
  void OnReply(provider::CmId id, bool known, const ReadLimits& peer, const Bytes& data) override;
  void OnRejected(provider::CmId id, const Status& status, const Bytes& data) override;
  void OnFailed(provider::CmId id, const Status& status) override;
  void OnPrepare(provider::CmId id, const Bytes& attributes) override;
  void OnEstablished(provider::CmId id) override;
  void OnLost(provider::CmId id, const Status& status, const Bytes& data) override;
  void OnPeerClosed(provider::CmId id, DisconnectReason reason) override;
  void OnDisconnected(provider::CmId id, const Status& status) override;
  void OnAdaptersChanged() override;

 private:
  struct Session {
    Client* client = nullptr;
    Token token = 0;
    core::SessionId id{};
    Duration delay{};
    Time last_in{}, last_out{}, last_lane{};
    std::deque<Message> unread;  // The client does not read.
    bool watched = false;        // A timer is running because the client does not read.
  };

  void Queue(core::Event event);
  void Run(core::Event event);
  void Drain();
  void CrashNow();
  void ArmTimer();
  Session* Find(core::SessionId id);
  void Send(Session& session, Message message, bool lane = false);
  void Arrive(Token token, Message message);
  void EndSession(core::SessionId id, const Status& why);
  void WearDisk();
  void OnShortage(bool met);

  template <typename Other>
  void Do(Other& action);
  void Do(core::HandOffTo& action);

  Options options_;
  Schedule& schedule_;
  Dice& dice_;
  Net& net_;
  Fabric& fabric_;
  Observer& observer_;
  Memory memory_;

  std::unique_ptr<core::Broker> broker_;
  std::unique_ptr<HostCm> cm_;
  std::deque<core::Event> events_;
  bool running_ = false, drain_posted_ = false, reclaim_posted_ = false, adapters_changed_ = false,
       crash_wanted_ = false;
  std::optional<Schedule::Id> timer_;
  std::uint32_t epoch_ = 0;
  std::uint64_t life_ = 0, last_session_ = 0;
  Token last_token_ = 0;
  std::map<core::SessionId, std::unique_ptr<Session>> sessions_;
  std::map<Token, Client*> clients_;  // Includes ended sessions, because messages in the socket still arrive.
  std::map<Token, std::unique_ptr<Session>> over_;
  std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
  std::unique_ptr<state::Journal> journal_;
  std::vector<core::Lease> leases_;
  Time leases_until_{};
};

}  // namespace nd::sim
