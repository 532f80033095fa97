// SPDX-License-Identifier: Apache-2.0
// One application of a host: listens, connects, talks and leaves, according to its Manners.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/client.h"
#include "tests/sim/host.h"
#include "tests/sim/talk.h"

namespace nd::sim {

enum class Manners : std::uint8_t {
  kHonest,
  kSlow,     // As kHonest, seconds later.
  kSilent,   // Stops reading its session and its streams at some point.
  kDying,    // Ends without closing anything at some moment; another process takes its place.
  kForking,  // As kDying, but a child keeps the descriptors for a while.
  kHostile,  // Random operations, foreign and invented handles, replays, floods.
};
inline constexpr std::size_t kMannersCount = 6;
const char* Name(Manners manners);

// The state that the applications of one simulation share.
struct Common {
  Schedule& schedule;
  Dice& dice;
  Net& net;
  std::vector<std::unique_ptr<Host>>& hosts;
  std::vector<std::pair<std::string, Address>> servers{};  // Adapter and address of each listener so far.
  std::vector<core::Handle> handles{};                     // Every handle that any client received.
  std::map<EndId, provider::HandOffRecord> records{};      // Of every stream that was handed over.
  std::function<void(const std::string&)> violation{};
  std::function<void(const char*)> saw{};
  std::uint64_t connected = 0, messages = 0, reattached = 0, completions = 0;
  bool winding_down = false;
};

class App final : public Client {
 public:
  struct Options {
    int host = 0;
    Manners manners = Manners::kHonest;
    bool server = false;
    std::uint32_t uid = 1000;
    std::string adapter;
    std::uint16_t port = 7000;  // The port to listen on or to connect to.
    bool foreign_network = false;
  };
  App(Common& common, Options options, std::uint32_t number);
  ~App() override;

  void Start();
  // Takes a random action, or none.
  void Act();
  void Die();
  // Ends everything, by an orderly close or by dying.
  void WindDown();

  bool Reads() const override { return !silent_ || !alive_; }
  void OnMessage(Token token, Message message) override;

  bool alive() const { return alive_; }
  const Options& options() const { return options_; }
  bool Is(const core::Process& process) const {
    return alive_ && process.pid == pid_ && process.uid == options_.uid && process.born == born_;
  }
  bool idle() const { return links_.empty() && token_ == 0; }

 private:
  using Reply = std::function<void(const core::Complete&)>;
  // A connection from its first object to its last.
  struct Link {
    std::uint32_t number = 0;
    bool passive = false, up = false, peer_gone = false, ending = false, reported = false, lost = false;
    core::Handle connector, queue_pair;
    std::uint64_t hand_off = 0;  // The hand-over that the completion names; 0 before it.
    core::Bytes proof;           // From the completion, for Reattach.
    bool completed = false;
    Address local, remote;
    ReadLimits limits;
    std::unique_ptr<Talk> talk;
    std::optional<HandOffMessage> arrived;  // Set when the hand-over arrived before the completion.
    std::uint32_t attempts = 0, messages_left = 0;
    std::uint32_t dialect = 0;
    bool device = false;
  };

  Host& host() { return *common_.hosts[static_cast<std::size_t>(options_.host)]; }
  Dice& dice() { return common_.dice; }
  core::Identity Identity() const;
  void OpenSession();
  void LoseSession(bool broker_lost);
  void CloseAllStreams(bool child_keeps_them);
  core::OpId Submit(const session::Operation& op, Reply reply = nullptr);
  // Calls `f` after the thinking time of this application, if the session is still the same.
  void Later(std::function<void()> f);
  Link* Find(std::uint32_t number);
  Link* FindConnector(core::Handle connector);
  Address Local(std::uint16_t port, bool wildcard = false);
  Address Somewhere();

  // app_serve.cc
  void Serve();
  void Ask();
  void Incoming(std::uint32_t link);
  void Answer(std::uint32_t link);
  // app_connect.cc
  void Begin();
  void Connect(std::uint32_t link);
  void Replied(std::uint32_t link, const core::Complete& complete);
  void Complete(std::uint32_t link);
  void Reattach(std::uint32_t link);
  void Reattach(Link& link);
  // app_link.cc
  void Established(std::uint32_t link, const core::Complete& complete);
  void TryUp(Link& link);
  void Converse(std::uint32_t link);
  void StreamEnded(std::uint32_t link, Talk::End how);
  void StartEnding(std::uint32_t link);
  void CloseLink(std::uint32_t link);
  void Forget(std::uint32_t link);
  void OnCommand(const core::SendTransportCommand& command);
  void FinishGoodbye(std::uint32_t link, bool timed_out);
  // app_hostile.cc
  void Misbehave();
  void Try();
  void MixAdapters();  // Connects with a queue pair of another adapter than the connector.
  session::Operation RandomOp();
  // Returns a handle, mostly of the kind that the operation of this index makes.
  core::Handle AnyHandle(std::size_t made_by);

  Common& common_;
  Options options_;
  const std::uint32_t number_;
  bool alive_ = false, silent_ = false;
  std::uint32_t pid_ = 0;
  std::uint64_t born_ = 0;
  Token token_ = 0;
  core::Handle adapter_, listener_, endpoint_;
  bool events_ = false;
  std::uint32_t gets_ = 0;
  core::OpId next_op_ = 1;
  std::map<core::OpId, Reply> waiting_;
  std::map<std::uint32_t, std::unique_ptr<Link>> links_;
  std::uint32_t next_link_ = 1;
  // The operations sent so far, for repeats.
  std::vector<std::pair<core::OpId, session::Operation>> sent_operations_;
  // Of a hostile application, by the index of the operation that made the handle.
  std::map<std::size_t, std::vector<core::Handle>> mine_;
};

}  // namespace nd::sim
