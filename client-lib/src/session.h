// SPDX-License-Identifier: Apache-2.0
// One session with the broker: the fd lane and the stream, operations and their one completion each, events
// to the objects they name, and a way back when the broker went away.
//
// Threads of a session: the stream's reader (completions, events; never blocks), the keeper (fd lane,
// deferred work, reconnecting) and the dispatcher (application callbacks). Public calls come from any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "client-lib/src/carried_counters.h"
#include "client-lib/src/dispatcher.h"
#include "client-lib/src/fork_guard.h"
#include "client-lib/src/lane.h"
#include "client-lib/src/message.h"
#include "client-lib/src/region_table.h"
#include "client-lib/src/request_state.h"
#include "client-lib/src/session_stream.h"
#include "nd/request.h"

namespace nd::client {

// A new connection to the broker; replaced in tests.
struct Channel {
  UniqueFd lane;
  // Called once the lane's token is there.
  std::function<Result<std::unique_ptr<SessionStream>>(Lane& lane, SessionStream::Sink* sink)> open_stream;
};

struct SessionOptions {
  std::function<Result<Channel>()> connect;
  std::string application;
  bool open_adapter = true;
  std::string adapter;
  Address local;
  bool reconnect = true;
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration last_backoff = std::chrono::seconds(2);
  Duration greeting_timeout = std::chrono::seconds(5);
};

// An object of this process that the broker knows, or that its close must wait for. Calls come from the
// reader or the keeper and must not block.
class Target {
 public:
  virtual ~Target() = default;
  virtual void OnConnectEvent(std::uint64_t /*connector*/, std::uint32_t /*epoch*/) {}
  virtual void OnDisconnectEvent(DisconnectReason /*reason*/) {}
  virtual void OnTransportCommand(const TransportCommand& /*command*/) {}
  virtual void OnAdapterGone() {}  // Disabled or removed; what existed then stays dead.
  // A new broker answers: brings back what can be, then calls `done` once.
  virtual void OnSessionBack(const std::function<void()>& done) { done(); }
  // Successors first.
  enum class Rank { kConnector, kQueuePair, kQueue, kEndpoint };
  virtual Rank rank() const = 0;
  // Closes without anyone waiting for it; nothing when it is closing already.
  virtual void BeginClose() = 0;
};

class Session final : public std::enable_shared_from_this<Session> {
 public:
  // Runs on the reader; returns the status that the caller of the operation shall see.
  using Then = std::function<Status(Reply& reply)>;
  using Done = std::function<void(Reply reply)>;
  // Objects of the broker live as long as the session with it: each new one is a new epoch.
  struct Life {
    std::uint64_t handle = 0;
    std::uint32_t epoch = 0;
  };
  enum class Sender { kApplication, kKeeper };

  // Connects, says Hello, opens the adapter. DEVICE_NOT_READY, ACCESS_DENIED, INVALID_PARAMETER,
  // INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<Session>> Open(SessionOptions options);
  explicit Session(SessionOptions options);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // Sends. SUCCESS: `done` runs exactly once, on the reader or the keeper. DEVICE_REMOVED (detail
  // kBrokerUnreachable): the broker is away, or the object was of a former life; `done` is dropped. Epoch 0
  // means any life.
  Status Submit(Op op, std::uint32_t epoch, Done done, Sender sender = Sender::kApplication);
  // A transport report, of which nobody wants to hear what becomes.
  void Say(const Op& report, std::uint32_t epoch);
  // The whole operation: PENDING with a Request, else the result. `closing`: the last thing delivered for
  // its object; `after` runs once its callback returned.
  Status Perform(Op op, std::uint32_t epoch, Request* request, Then then = {}, bool closing = false,
                 std::function<void()> after = {});
  // Perform() without a Request, and its reply.
  Result<Reply> Call(Op op, std::uint32_t epoch);

  // For operations without the broker: Begin, Finish exactly once, Outcome.
  Result<std::shared_ptr<Request::State>> Begin(Request* request);
  void Finish(const std::shared_ptr<Request::State>& state, Status status);
  void FinishClose(const std::shared_ptr<Request::State>& state, std::function<void()> after);
  static Status Outcome(Request* request, const std::shared_ptr<Request::State>& state);

  // Deferred work, on the keeper.
  void Post(std::function<void()> task) { PostAt({}, std::move(task)); }
  void PostAt(Time when, std::function<void()> task);

  void Register(std::uint64_t handle, std::shared_ptr<Target> target);  // Events for `handle` go there.
  void Unregister(std::uint64_t handle);
  void AddLive(std::shared_ptr<Target> target);
  void RemoveLive(const std::shared_ptr<Target>& target);

  Dispatcher& dispatcher() { return dispatcher_; }
  CompletionPort& port() { return *port_; }
  const AdapterInfo& info() const { return info_; }  // Fixed after Open.
  Life adapter() const;
  std::shared_ptr<CountersPages> counters() const;
  // See CarriedCounters::Add; the copying is done from now on.
  void Carry(const void* owner, CounterSlot from, CounterSlot to);
  CarriedCounters& carried() { return carried_; }
  const std::shared_ptr<RegionTable>& regions() const { return regions_; }
  bool connected() const;
  bool in_child() const { return mark_.InChild(); }
  void SetCallback(std::function<void(bool)> callback);

  // Closes every live object, successors first, then the session; returns when no callback runs any more.
  // From a thread of the session itself it only sets that going.
  void CloseAll();
  // True on the reader, the keeper or the dispatcher.
  bool OnOwnThread() const;

 private:
  struct Link;
  enum class State { kConnecting, kUp, kDown };

  Status ConnectLink();
  Result<Reply> CallWithin(Op op, Duration timeout);
  void TearDown(const Status& why);
  void Keep();
  void Serve(const std::shared_ptr<Link>& link);
  bool Reconnect();
  void BringBack();
  // Until each of them is back or never will be.
  void BringBack(const std::vector<std::shared_ptr<Target>>& targets);
  bool Closing();
  void RunTasks();
  void Sleep(int fd, Time until);
  void Wake();
  void Tell(bool connected);
  void CopyCounters();
  void OnMessage(Link& link, Incoming message);
  void OnReply(Link& link, Reply reply);
  void Break(Link& link, Status why);
  std::shared_ptr<Target> Find(std::uint64_t handle);
  bool AwaitRank(Target::Rank rank, Time deadline);
  Status Unreachable() const;

  const SessionOptions options_;
  const ForkMark mark_;
  const std::shared_ptr<CompletionPort> port_ = std::make_shared<CompletionPort>();
  Dispatcher dispatcher_;
  AdapterInfo info_;
  CarriedCounters carried_;
  const std::shared_ptr<RegionTable> regions_ = std::make_shared<RegionTable>();
  std::atomic<bool> carrying_{false};  // CopyCounters() is among the tasks.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kConnecting;
  std::shared_ptr<Link> link_;
  std::uint32_t epoch_ = 0;
  std::uint64_t adapter_handle_ = 0;
  std::uint64_t last_op_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Target>> by_handle_;
  std::set<std::shared_ptr<Target>> live_;
  std::multimap<Time, std::function<void()>> tasks_;
  std::function<void(bool)> callback_;
  bool closing_ = false;
  Time close_deadline_;

  UniqueFd wake_;
  std::minstd_rand random_;
  std::mutex join_mutex_;
  std::thread keeper_;
};

}  // namespace nd::client
