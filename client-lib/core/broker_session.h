// SPDX-License-Identifier: Apache-2.0
// One session with the broker: the fd lane and the carrier of messages, operations with one completion each,
// events for objects, and the return to a restarted broker.
//
// Threads of a session: the reader (completions, events; never blocks), which is a thread of the carrier or a
// caller that waits for its answer, the keeper (fd lane, deferred work, reconnecting) and the dispatcher
// (application callbacks). Public calls come from any thread.
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
#include "base/os/wake_event.h"
#include "client-lib/core/broker_lane.h"
#include "client-lib/core/call_state.h"
#include "client-lib/core/carried_counters.h"
#include "client-lib/core/dispatcher.h"
#include "client-lib/core/fork_guard.h"
#include "client-lib/core/listed_regions.h"
#include "client-lib/core/message.h"
#include "nd/adapter_change.h"
#include "nd/carrier.h"
#include "session/events.h"
#include "session/operations.h"

namespace nd::provider {
class Device;
struct HalvesMessage;
}  // namespace nd::provider

namespace nd::client {

// A new connection to the broker; replaced in tests.
struct Channel {
  UniqueFd lane;
  // Called after the token of the lane has arrived.
  std::function<Result<std::unique_ptr<Carrier>>(BrokerLane& lane, Carrier::Sink* sink)> open_carrier;
};

struct SessionOptions {
  std::function<Result<Channel>()> connect;
  std::string application;
  bool open_adapter = true;
  std::string adapter;
  Address local;
  bool reconnect = true;
  // The time between two attempts to reach the broker again. It grows when the broker refuses the session, or
  // is away for longer than a restart.
  Duration first_backoff = std::chrono::milliseconds(20);
  Duration last_backoff = std::chrono::seconds(2);
  Duration greeting_timeout = std::chrono::seconds(5);
};

// An object of this process that the broker knows or whose close must be awaited. Its members are called by
// the reader or the keeper and must not block.
class Target {
 public:
  virtual ~Target() = default;
  virtual void OnConnectEvent(session::Handle /*connector*/, std::uint32_t /*epoch*/) {}
  virtual void OnDisconnectEvent(DisconnectReason /*reason*/) {}
  virtual void OnTransportCommand(const session::TransportCommand& /*command*/) {}
  virtual void OnAdapterGone() {}  // Disabled or removed; existing objects stay dead.
  // A new broker answers: restores the object if possible, then calls `done` once.
  virtual void OnSessionBack(const std::function<void()>& done) { done(); }
  // Successors first.
  enum class Rank { kConnector, kQueuePair, kQueue, kEndpoint };
  virtual Rank rank() const = 0;
  // Starts a close that nobody waits for; does nothing when it is closing already.
  virtual void BeginClose() = 0;
};

// True for the status of BrokerSession::Submit and Perform when the broker is away.
inline bool IsUnreachable(const Status& status) {
  return status == StatusCode::kDeviceRemoved && status.detail() == Detail::kBrokerUnreachable;
}

class BrokerSession final : public std::enable_shared_from_this<BrokerSession> {
 public:
  // Runs on the reader; returns the status for the caller of the operation.
  using Then = std::function<Status(Reply& reply)>;
  using Done = std::function<void(Reply&& reply)>;
  // Objects of the broker live as long as its session; each new session is a new epoch.
  struct Life {
    session::Handle handle;
    std::uint32_t epoch = 0;
  };
  // kUnhurried: nobody waits for the answer, which may be handled 8 kLaneRest late. kPutOff: nor does
  // anybody wait for the effect, so that the operation itself may be sent as late. kAtOnce: as kUnhurried,
  // and Submit() does not wait for room in the lane.
  enum class Sender { kApplication, kKeeper, kUnhurried, kPutOff, kAtOnce };
  // An operation that a caller is going to wait for in AwaitReply().
  struct Ticket;

  // Connects, sends Hello and opens the adapter. DEVICE_NOT_READY, ACCESS_DENIED, INVALID_PARAMETER,
  // INSUFFICIENT_RESOURCES.
  static Result<std::shared_ptr<BrokerSession>> Open(SessionOptions options);
  explicit BrokerSession(SessionOptions options);
  ~BrokerSession();
  BrokerSession(const BrokerSession&) = delete;
  BrokerSession& operator=(const BrokerSession&) = delete;

  // Sends an operation. SUCCESS: `done` runs exactly once, on the reader or the keeper. DEVICE_REMOVED
  // (detail kBrokerUnreachable): the broker is away or the object belongs to a former epoch; `done` is
  // dropped. Epoch 0 means any epoch. A caller that blocks until `done` has run gives a ticket. DEVICE_BUSY,
  // kAtOnce only: sending would have to wait; `done` is dropped.
  Status Submit(session::Operation op, std::uint32_t epoch, Done done, Sender sender = Sender::kApplication,
                Ticket* ticket = nullptr);
  // Sends an operation that makes an object ahead (session.proto, CreateConnector). Returns the name of the
  // object until `done` has its handle; otherwise as Submit() of kPutOff.
  Result<session::Handle> SubmitAhead(session::Operation op, std::uint32_t epoch, Done done);
  // Where the spares of that epoch are; null: none, or this process is a child.
  std::shared_ptr<MappedCounters> spares(std::uint32_t epoch) const;
  // Helps reading until `done` has run, or returns at once. The outcome has to be awaited all the same.
  void AwaitReply(const Ticket& ticket);
  // Sends a transport report, which has no answer. Does nothing while the broker is away.
  void Report(session::TransportReportOp report, std::uint32_t epoch);
  // Performs an operation. `then` sees its reply before the caller does, and returns the result of the call.
  Status Perform(session::Operation op, std::uint32_t epoch, const Caller& caller, Then then = {});
  // A Perform() that blocks; returns the reply.
  Result<Reply> Call(session::Operation op, std::uint32_t epoch);

  // For operations without the broker: Begin, Finish exactly once, Outcome.
  Result<std::shared_ptr<CallState>> Begin(const Caller& caller);
  void Finish(const std::shared_ptr<CallState>& state, Status status);
  void FinishClose(const std::shared_ptr<CallState>& state, std::function<void()> after);
  static Status Outcome(const Caller& caller, const std::shared_ptr<CallState>& state);

  // Deferred work, on the keeper.
  void Post(std::function<void()> task) { PostAt({}, std::move(task)); }
  void PostAt(Time when, std::function<void()> task);

  void Register(session::Handle handle,
                std::shared_ptr<Target> target);  // Routes events for `handle` to `target`.
  void Unregister(session::Handle handle);
  void AddLive(std::shared_ptr<Target> target);
  void RemoveLive(const std::shared_ptr<Target>& target);
  // A listener gets its requests as events, which must not wait for the next call of the application.
  void AddEventListener() { event_listeners_.fetch_add(1, std::memory_order_relaxed); }
  void RemoveEventListener() { event_listeners_.fetch_sub(1, std::memory_order_relaxed); }

  // Lets the device of the adapter speak with its daemon half, and waits until they have met. SUCCESS at once
  // for a device whose daemon half makes the connections. NOT_SUPPORTED: the session is held by gRPC, or the
  // broker knows no such messages; else the status of Device::Meet().
  Status Introduce(const std::shared_ptr<provider::Device>& device);

  Dispatcher& dispatcher() { return dispatcher_; }
  CompletionPort& port() { return *port_; }
  const AdapterInfo& info() const { return info_; }  // Fixed after Open.
  Life adapter() const;
  std::shared_ptr<MappedCounters> counters() const;
  // See CarriedCounters::Add; starts the copying.
  void Carry(const void* owner, CounterSlot from, CounterSlot to);
  CarriedCounters& carried() { return carried_; }
  const std::shared_ptr<ListedRegions>& regions() const { return regions_; }
  bool connected() const;
  // As BrokerLane::reattach_makes_queue_pairs(), of the present broker.
  bool reattach_makes_queue_pairs() const;
  bool in_child() const { return mark_.InChild(); }
  void SetCallback(std::function<void(bool)> callback);
  void SetAdapterCallback(std::function<void(AdapterChange)> callback);

  // Closes every live object, successors first, then the session, and waits until no callback runs. On a
  // thread of the session it only starts that.
  void CloseAll();
  // True on the reader, the keeper or the dispatcher.
  bool OnOwnThread() const;

 private:
  struct Link;
  class Daemon;
  // kReturning: the listeners and shared endpoints are back, the other objects are not yet.
  enum class State { kConnecting, kReturning, kUp, kDown };

  // `reached`: set when a broker accepted the connection. May be null.
  Status ConnectLink(bool* reached = nullptr);
  // Gives sockets to a broker that serves the network namespace of this process. Without them the broker
  // names the missing ones.
  static void GiveNetwork(BrokerLane& lane);
  static void GiveSocketFor(const session::ConnectOp& connect, session::OpId op_id, BrokerLane& lane);
  Status Send(session::ClientMessage message, bool early, std::uint32_t epoch, Done done,
              Ticket* ticket = nullptr, Sender sender = Sender::kApplication,
              session::OpId* number = nullptr);
  // Returns false when only a sender that waits can send it.
  static bool Pass(Link& link, std::span<const std::byte> bytes, Sender sender);
  // Under mutex_: whether operations on objects of this epoch can be sent.
  bool TakesOperations() const;
  Result<Reply> CallWithin(session::ClientMessage message, const char* what, Duration timeout);
  void TearDown(const Status& why);
  void Keep();
  void Serve(const std::shared_ptr<Link>& link);
  bool Reconnect();
  void BringBack();
  // Waits until each of them is restored or has failed.
  void BringBack(const std::vector<std::shared_ptr<Target>>& targets);
  // Takes a message of the keeper while it restores objects, to send it together with others. Returns false
  // when it is to be sent alone.
  bool Gather(Link& link, std::vector<std::byte>& message);
  void SendGathered(Link& link);
  bool Closing();
  void RunTasks();
  void Sleep(int fd, Time until);
  void Wake();
  void Tell(bool connected);
  void Tell(AdapterChange change);
  // Calls the application's callback on the dispatch thread, if it has one.
  template <typename Value>
  void Call(std::function<void(Value)> BrokerSession::*kept, Value value);
  void CopyCounters();
  void OnHalvesMessage(const provider::HalvesMessage& message);
  std::shared_ptr<provider::Device> IntroducedDevice();
  // Returns false when the session has ended.
  bool OnMessage(Link& link, std::span<const std::byte> bytes);
  void OnEvent(const session::ConnectEvent& event);
  void OnEvent(const session::DisconnectEvent& event);
  void OnEvent(const session::TransportCommand& command);
  void OnEvent(const session::AdapterEvent& event);
  void OnReply(Link& link, Reply&& reply);
  bool AwaitsNothing(const Link& link);
  void Break(Link& link, Status why);
  std::shared_ptr<Target> Find(session::Handle handle);
  bool AwaitRank(Target::Rank rank, Time deadline);
  // `why`: the status that ended the link.
  static Status Unreachable(const Status& why = {});

  const SessionOptions options_;
  const ForkMark mark_;
  const std::shared_ptr<CompletionPort> port_ = std::make_shared<CompletionPort>();
  Dispatcher dispatcher_;
  AdapterInfo info_;
  CarriedCounters carried_;
  const std::shared_ptr<ListedRegions> regions_ = std::make_shared<ListedRegions>();
  std::atomic<bool> carrying_{false};  // CopyCounters() is among the tasks.
  std::atomic<int> event_listeners_{0};
  std::mutex device_mutex_;                   // Locked last.
  std::shared_ptr<provider::Device> device_;  // One with messages for its daemon half.

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::kConnecting;
  std::shared_ptr<Link> link_;
  std::uint32_t epoch_ = 0;
  session::Handle adapter_handle_;
  session::OpId last_op_ = 0;
  std::map<session::Handle, std::shared_ptr<Target>> by_handle_;
  std::set<std::shared_ptr<Target>> live_;
  std::multimap<Time, std::function<void()>> tasks_;
  std::function<void(bool)> callback_;
  std::function<void(AdapterChange)> adapter_callback_;
  bool closing_ = false;
  Time close_deadline_;

  os::WakeEvent wake_;
  std::minstd_rand random_;
  std::vector<std::vector<std::byte>> gathered_;  // Of the keeper alone.
  std::mutex join_mutex_;
  std::thread keeper_;
};

struct BrokerSession::Ticket {
  std::shared_ptr<Link> link;
  session::OpId op = 0;
};

}  // namespace nd::client
