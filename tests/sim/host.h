// SPDX-License-Identifier: Apache-2.0
// One simulated machine: the real core in a shell that can die between any two actions and come back.
//
// Events are queued and applied one by one, actions executed in order, as the daemon does. Sessions are
// streams in both directions and a lane for descriptors, each with its own delay; each keeps its order.
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
#include "tests/sim/memory.h"
#include "tests/sim/sim_cm.h"
#include "tests/sim/sim_medium.h"

namespace nd::sim {

struct HostFaults {
  std::uint32_t crash = 0;          // Before each action.
  std::uint32_t lane_fails = 0;     // Each hand-off: EAGAIN for ever, EPIPE, ETOOMANYREFS, EMFILE.
  std::uint32_t duplicate = 0;      // Each operation comes a second time, later.
  std::uint32_t journal_fails = 0;  // Each step: the disk is full for a while, or tears a write.
  std::uint32_t no_memory = 0;      // Each step, handshake or journal entry: an allocation inside it fails.
};

class Host final : public provider::CmSink {
 public:
  // What the simulation wants to see and to spoil.
  class Observer {
   public:
    virtual ~Observer() = default;
    // False: the run ends here and the event is not applied.
    virtual bool BeforeStep() = 0;
    virtual void AfterStep(Host& host, const core::Event& event, const core::Actions& actions) = 0;
    virtual void OnStart(Host& host) = 0;
    virtual void OnCrash(Host& host) = 0;
    // A test-only fault of the harness; see faults.h.
    virtual bool Broken(const char* name) = 0;
    virtual void OnSilence(Host& host) = 0;
    virtual void OnLostHandOff(Host& host) = 0;
    virtual void OnDuplicate(Host& host) = 0;
    // It dies of it. `met`: an allocation failed; otherwise the work needed fewer.
    virtual void OnShortage(Host& host, bool met) = 0;
    // Such a fault of the core: what its actions look like with it.
    virtual void Spoil(core::Actions* actions) = 0;
    // Whether this process still runs.
    virtual bool Lives(const Host& host, const core::Process& process) = 0;
  };
  struct Options {
    int number = 0;
    SimCm::Options cm;
    core::Settings settings;
    core::Policy policy;
    std::uint64_t seed = 0;
  };

  Host(Options options, Schedule& schedule, Dice& dice, Net& net, Fabric& fabric, Observer& observer);
  ~Host() override;

  HostFaults faults;

  void Start();
  // At the next chance between two actions, or now if nothing runs.
  void Crash();
  // An orderly end.
  void Stop();
  bool up() const { return broker_ != nullptr; }

  // A client connects. 0: nobody answers.
  Token Open(Client& client, const core::Identity& identity);
  void Submit(Token token, core::OpId op_id, const core::Op& op);
  // The client's end of the session closed (it died, or left).
  void HangUp(Token token);
  // The client reads again.
  void Readable(Token token);
  void Admin(core::Event event);

  const core::Broker& broker() const { return *broker_; }
  SimCm& cm() { return *cm_; }
  const Options& options() const { return options_; }
  Options& mutable_options() { return options_; }
  int number() const { return options_.number; }
  std::uint32_t epoch() const { return epoch_; }
  std::size_t sessions() const { return sessions_.size(); }
  std::optional<core::SessionId> SessionOf(Token token) const;
  state::JournalState journal() const { return journal_->state(); }
  // What a broker that starts now would find.
  std::vector<core::Lease> JournaledLeases() const;
  const std::vector<core::Lease>& leases() const { return leases_; }  // That this life began with.
  Time leases_until() const { return leases_until_; }
  bool settled() const { return events_.empty() && !running_ && !crash_wanted_; }

  // provider::CmSink: only queues.
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
    bool watched = false;        // A timer runs against its not reading.
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
  std::unique_ptr<SimCm> cm_;
  std::deque<core::Event> events_;
  bool running_ = false, drain_posted_ = false, adapters_changed_ = false, crash_wanted_ = false;
  std::optional<Schedule::Id> timer_;
  std::uint32_t epoch_ = 0;
  std::uint64_t life_ = 0, last_session_ = 0;
  Token last_token_ = 0;
  std::map<core::SessionId, std::unique_ptr<Session>> sessions_;
  std::map<Token, Client*> clients_;  // Also of sessions that ended: what is in the socket arrives.
  std::map<Token, std::unique_ptr<Session>> over_;
  std::shared_ptr<Disk> disk_ = std::make_shared<Disk>();
  std::unique_ptr<state::Journal> journal_;
  std::vector<core::Lease> leases_;
  Time leases_until_{};
};

}  // namespace nd::sim
