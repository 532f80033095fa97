// SPDX-License-Identifier: Apache-2.0
// A world for tests: brokers wired back to back by a connection manager that delivers at once, clients that
// answer the commands of the broker, and a clock that the test advances. After every event the invariants of
// each broker are checked.
#pragma once

#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "daemon/core/broker.h"

namespace nd::core {

inline Address Ip(const std::string& text) {
  Result<Address> address = Address::Parse(text);
  EXPECT_TRUE(address.ok()) << text;
  return address.ok() ? *address : Address();
}

inline Bytes Data(const std::string& text) {
  return {text.begin(), text.end()};
}

provider::AdapterDescription TestAdapter(const std::string& name, const std::vector<std::string>& ips);

// The words in which clients find their spares.
class FakeBoard final : public SpareBoard {
 public:
  bool Offer(SessionId session, SpareKind kind, std::uint32_t index, std::uint32_t value) override {
    if (readable) words[{session, kind, index}] = value;
    return readable;
  }
  bool Withdraw(SessionId session, SpareKind kind, std::uint32_t index) override {
    return std::exchange(words[{session, kind, index}], 0) != 0;
  }
  // As a client takes a spare: its number and value, or zeros.
  std::pair<std::uint32_t, std::uint32_t> Take(SessionId session, SpareKind kind);
  std::size_t Offered(SessionId session, SpareKind kind) const;

  bool readable = true;
  std::map<std::tuple<SessionId, SpareKind, std::uint32_t>, std::uint32_t> words;
};

class World {
 public:
  // Each host has adapters a0 (10.0.<host>.1, 10.0.<host>.2, fd00::<host>) and a1 (10.1.<host>.1).
  explicit World(int hosts = 1, const Settings& settings = {}, const Policy& policy = {},
                 std::uint32_t reclaim_slice = 64);

  // --- clients
  struct Client {
    int host = 0;
    SessionId session{};
    Handle adapter;
    std::uint32_t uid = 1000;
    std::string adapter_name = "a0";
  };
  // The time for which connections may come back to a broker that was just started.
  static constexpr Duration kGrace = std::chrono::seconds(30);
  // The proofs in the hand-overs of these brokers; uid 1000 is the brokers' owner.
  static Bytes ProofOf(const ConnectionFacts& facts);
  // Returns the operation by which an application brings a former connection back.
  ReattachOp Returning(const Client& client, const std::string& local, const std::string& remote,
                       bool passive, const ReadLimits& limits = {1, 1});
  Client Open(int host = 0, std::uint32_t uid = 1000, std::uint32_t pid = 0,
              const std::string& adapter = "a0");
  void Die(const Client& client);
  // Submits an operation; Result() finds the completion by the id.
  OpId Submit(const Client& client, Operation op);
  // Submits again with a used id.
  void Resubmit(const Client& client, OpId id, Operation op);
  bool Done(const Client& client, OpId id) const;
  // Returns the completion; PENDING when there is none yet.
  const Complete& Result(const Client& client, OpId id) const;
  StatusCode Code(const Client& client, OpId id) const { return Result(client, id).status.code(); }
  Complete Call(const Client& client, Operation op) { return Result(client, Submit(client, std::move(op))); }
  StatusCode Try(const Client& client, Operation op) { return Call(client, std::move(op)).status.code(); }

  Handle Qp(const Client& client);
  Handle Connector(const Client& client);
  Handle Bound(const Client& client, const std::string& local);
  Handle Listener(const Client& client, const std::string& local, std::uint32_t backlog = 0);
  Handle NdkListener(const Client& client, const std::string& local);
  Handle Endpoint(const Client& client, const std::string& local);
  OpId Connect(const Client& client, Handle connector, Handle qp, const std::string& remote,
               const std::string& data = "");
  // Returns a connector in state Incoming with the next request of the listener.
  Handle Incoming(const Client& client, Handle listener);
  StatusCode Close(const Client& client, Handle handle, bool ndk = false) {
    return Try(client, CloseOp{handle, ndk});
  }
  ConnectorState State(const Client& client, Handle connector) const;

  struct Up {
    Client a, p;
    Handle listener, ac, pc, aq, pq;
  };
  // Makes a pair in the given stage. Host a.host connects to host 1 if there is one, else to itself.
  enum class Stage { kListening, kConnecting, kIncoming, kReplied, kConnected, kPeerClosed };
  Up Pair(Stage stage, const std::string& local = "10.0.0.1:6000");

  // --- events, actions, time
  void Step(int host, const Event& event);
  void Advance(Duration by);
  Broker& broker(int host = 0) { return *hosts_[static_cast<std::size_t>(host)].broker; }
  const Broker& broker(int host = 0) const { return *hosts_[static_cast<std::size_t>(host)].broker; }
  Time now() const { return now_; }

  // The actions of the brokers, by host, in order.
  template <typename A>
  std::vector<A> Seen(int host = 0) const {
    std::vector<A> seen;
    for (const Action& action : hosts_[static_cast<std::size_t>(host)].log) {
      if (const A* a = std::get_if<A>(&action)) seen.push_back(*a);
    }
    return seen;
  }
  void ClearLog();
  const std::vector<Action>& Log(int host) const { return hosts_[static_cast<std::size_t>(host)].log; }
  // The leases that a journal would hold after the actions of this broker.
  std::vector<Lease> Leases(int host = 0) const;
  // Restarts the broker after kill -9; only these leases remain.
  void Restart(int host, const std::vector<Lease>& leases, Duration grace);
  // From now on the ports of adapter a0 are ports of the host, and its provider holds idle ones too.
  void KeepPorts();
  // The host ports that were reserved and released, in order: "+10.0.0.1:7000", "-10.0.0.1:7000".
  std::vector<std::string> HostPorts(int host = 0) const;
  std::set<std::uint32_t> ended;  // Processes with leases that will not return.
  // One line per action, for comparing two runs.
  std::string trace() const { return trace_; }
  std::vector<OpId> completion_order(const Client& client) const;

  // --- knobs
  bool check_always = true;
  bool keep_trace = false;
  bool reclaim_at_once = true;  // Reclaims ended sessions at once; otherwise the test steps with ReclaimSome.
  bool wire_is_cut = false;     // All messages on the wire are lost.
  bool clients_answer = true;   // To TransportCommand DISCONNECT.
  bool delay_goodbyes = false;  // Held until ReleaseGoodbyes().
  bool answer_reserves = true;
  std::uint64_t open_born = 0;          // The start time of the processes that Open() makes.
  bool open_foreign_namespace = false;  // Open() makes clients of another user namespace.
  // Pair() first makes one more connector in each session.
  bool pair_has_older_connectors = false;
  bool open_foreign = false;  // Open() makes clients of another network namespace.
  // Open() makes clients that make objects ahead; Qp() and Connector() then use spares and return names.
  bool open_ahead = false;
  std::uint64_t open_network = 0;                       // Open() makes clients of this served network.
  std::map<std::uint16_t, StatusCode> reserve_answers;  // By port; others are granted.
  std::optional<Status> fail_connects;                  // Fails connects with it instead of delivering them.
  void ReleaseGoodbyes();

 private:
  struct Host {
    std::unique_ptr<Broker> broker;
    std::vector<Action> log;
    std::map<SessionId, std::map<OpId, Complete>> completions;
    std::map<SessionId, std::vector<OpId>> order;
    std::uint64_t next_inbound = 1;
  };
  // One connection between two ids.
  struct Link {
    int hosts[2];
    CmId ids[2];
    bool up = false;
    Handle connectors[2];
    SessionId sessions[2];
    ReadLimits answer;
  };
  struct Queued {
    int host;
    Event event;
  };

  // The handle or name of a new object. `make` has the operation for the number of a spare.
  template <typename Make>
  Handle New(const Client& client, SpareKind kind, const Make& make);
  void Drain();
  void Act(int host, const Action& action);
  Link* Find(int host, CmId id, int* side);
  Link* Find(int host, Handle connector, int* side);
  void Post(int host, Event event) { queue_.push_back({host, std::move(event)}); }
  void Report(Link& link, int side, TransportReportOp::What what, DisconnectReason reason);

  std::unique_ptr<Broker> MakeBroker(int host, std::uint32_t epoch, std::vector<Lease> leases, Time until);

  const Settings settings_;
  const Policy policy_;
  const std::uint32_t reclaim_slice_;
  std::uint32_t lives_ = 0;
  Time now_{std::chrono::hours(1)};
  FakeBoard board_;  // Of all hosts; each session has a number of its own.
  std::vector<Host> hosts_;
  std::vector<std::unique_ptr<Link>> links_;
  std::map<std::pair<int, std::uint64_t>, Link*> by_id_;
  std::map<std::pair<int, Handle>, Link*> by_connector_;
  std::deque<Queued> queue_;
  std::vector<Queued> held_;
  bool draining_ = false;
  OpId next_op_ = 1;
  std::uint64_t next_session_ = 1;
  std::string trace_;
  Complete pending_;
};

// The adapters of a host as their provider describes them, to be changed and sent by AdaptersChanged.
std::vector<provider::AdapterDescription> AdaptersOf(const World& w, int host = 0);
// Bind a new connector, and a new listener that listens.
Complete BindNew(World& w, const World::Client& c, const std::string& local);
StatusCode ListenNew(World& w, const World::Client& c, const std::string& local);

}  // namespace nd::core
