// SPDX-License-Identifier: Apache-2.0
// The thread that maintains a session: it watches the fd lane and does deferred work. When the broker is gone
// it completes pending operations, connects again and restores the objects.
#include <algorithm>
#include <utility>

#include "base/os/wait.h"
#include "client-lib/core/broker_session.h"
#include "client-lib/core/session_link.h"
#include "provider/qp.h"
#include "session/limits.h"

namespace nd::client {
namespace {

// The interval for copying the counts of connections that survived their broker.
constexpr Duration kCarryInterval = std::chrono::seconds(1);

// So many attempts in a row meet no broker while it restarts on a busy host. An attempt that nobody accepts
// costs microseconds, and a connection of another host waits for the listeners of this session meanwhile.
constexpr int kRestart = 100;

// The messages that are sent together when objects are restored; each has at most some hundred bytes. The
// broker handles this many messages in one turn of the client.
constexpr std::size_t kTogether = 16;

thread_local const BrokerSession* gathering = nullptr;  // The session whose objects this thread restores.

}  // namespace

Status BrokerSession::ConnectLink(bool* reached) {
  auto channel = options_.connect();
  if (!channel.ok()) return channel.status();
  if (reached != nullptr) *reached = true;
  auto link = std::make_shared<Link>(this, std::move(channel->lane));
  link->lane.SetHalves([this](const provider::HalvesMessage& message) { OnHalvesMessage(message); });
  auto token = link->lane.ReadToken(std::chrono::steady_clock::now() + options_.greeting_timeout);
  if (!token.ok()) return token.status();
  auto carrier = channel->open_carrier(link->lane, link.get());
  if (!carrier.ok()) return carrier.status();
  link->carrier = std::move(carrier).value();
  link->lane_messages = dynamic_cast<LaneMessages*>(link->carrier.get());
  if (link->lane.gives_sockets()) GiveNetwork(link->lane);
  {
    std::lock_guard lock(mutex_);
    link_ = link;
    ++epoch_;
    state_ = State::kConnecting;
  }
  session::Hello hello{session::Bytes(token->begin(), token->end()), session::kProtocolVersion,
                       session::kProtocolVersion, options_.application,
                       session::kClientExtensions | session::kClientSpares | session::kClientTakesTogether};
  auto greeted = CallWithin({0, std::move(hello)}, "the greeting", options_.greeting_timeout);
  if (!greeted.ok()) return greeted.status();
  if (!options_.open_adapter) return {};

  session::OpenAdapterOp open;
  open.name = info_.name.empty() ? options_.adapter : info_.name;
  if (open.name.empty()) open.local = options_.local;
  auto opened = CallWithin({0, std::move(open)}, "the request for its adapters", options_.greeting_timeout);
  if (!opened.ok()) return opened.status();
  if (info_.name.empty()) {
    if (opened->adapters.empty()) {
      return {StatusCode::kInternalError, "the broker opened an adapter without describing it",
              Detail::kProtocol};
    }
    info_ = opened->adapters.front();
  }
  std::lock_guard lock(mutex_);
  adapter_handle_ = opened->handle;
  return {};
}

void BrokerSession::TearDown(const Status& why) {
  std::shared_ptr<Link> link;
  std::map<session::Handle, std::shared_ptr<Target>> handles;
  {
    std::lock_guard lock(mutex_);
    state_ = State::kDown;
    link = std::exchange(link_, nullptr);
    handles.swap(by_handle_);
  }
  if (!link) return;
  link->carrier->Close();
  std::map<session::OpId, Link::Pending> pending;
  {
    std::lock_guard lock(mutex_);
    pending.swap(link->pending);
  }
  for (auto& [id, entry] : pending) {
    Reply reply;
    reply.status = why;
    entry.done(std::move(reply));
  }
}

void BrokerSession::Keep() {
  for (;;) {
    std::shared_ptr<Link> link;
    {
      std::lock_guard lock(mutex_);
      link = link_;
    }
    Serve(link);
    const bool closing = Closing();
    Status why;
    {
      std::lock_guard lock(mutex_);
      why = link->why;
    }
    TearDown(closing ? Status(StatusCode::kCanceled, "the adapter was closed") : Unreachable(why));
    link.reset();
    RunTasks();
    if (closing) break;
    Tell(false);
    if (!Reconnect()) break;
    Tell(true);
  }
  dispatcher_.Stop();
  // The objects of a close that reached its deadline. Declared first, so that it is destroyed outside the
  // lock.
  std::set<std::shared_ptr<Target>> left;
  std::lock_guard lock(mutex_);
  left.swap(live_);
}

// True when the session is to end now: it was requested, and all objects are closed or the deadline has
// passed.
bool BrokerSession::Closing() {
  std::lock_guard lock(mutex_);
  return closing_ && (live_.empty() || std::chrono::steady_clock::now() >= close_deadline_);
}

void BrokerSession::Serve(const std::shared_ptr<Link>& link) {
  for (;;) {
    RunTasks();
    if (Closing()) return;
    {
      std::lock_guard lock(mutex_);
      if (link->over) return;
    }
    Sleep(link->lane.fd(), Time::max());
    if (Status status = link->lane.Drain(); !status.ok()) Break(*link, status);
  }
}

// Sleeps until `fd` (unless -1) is readable, another thread wakes it, a task is due, or `until`.
void BrokerSession::Sleep(int fd, Time until) {
  {
    std::lock_guard lock(mutex_);
    if (!tasks_.empty()) until = std::min(until, tasks_.begin()->first);
    if (closing_) until = std::min(until, close_deadline_);
  }
  Duration timeout = os::kNoLimit;
  if (until != Time::max()) {
    timeout = std::clamp<Duration>(until - std::chrono::steady_clock::now(), Duration::zero(),
                                   std::chrono::minutes(1));
  }
  os::Watched entries[] = {{wake_.handle()}, {fd}};
  os::Wait(entries, timeout);
  if (entries[0].ready != 0) wake_.Clear();
}

void BrokerSession::RunTasks() {
  for (;;) {
    std::function<void()> task;
    {
      std::lock_guard lock(mutex_);
      if (tasks_.empty() || tasks_.begin()->first > std::chrono::steady_clock::now()) return;
      task = std::move(tasks_.begin()->second);
      tasks_.erase(tasks_.begin());
    }
    task();
  }
}

bool BrokerSession::Reconnect() {
  Duration backoff = options_.first_backoff;
  int in_vain = 0;
  for (;;) {
    // Jitter, so that the applications of a host do not all return at the same instant.
    const double part = std::uniform_real_distribution<double>(0.5, 1.0)(random_);
    const Time next = std::chrono::steady_clock::now() + std::chrono::duration_cast<Duration>(backoff * part);
    while (std::chrono::steady_clock::now() < next || !options_.reconnect) {
      Sleep(-1, options_.reconnect ? next : Time::max());
      RunTasks();
      if (Closing()) return false;
    }
    bool reached = false;
    const Status status = ConnectLink(&reached);
    if (reached || ++in_vain >= kRestart) backoff = std::min(backoff * 2, options_.last_backoff);
    if (status.ok()) BringBack();
    {
      std::lock_guard lock(mutex_);
      if (status.ok() && !link_->over) {
        state_ = State::kUp;
        return true;
      }
    }
    TearDown(Unreachable());
  }
}

// Listeners and shared endpoints first: connections that came through them rejoin them at their port. New
// connections need not wait for the others: a listener accepts as soon as it is back.
void BrokerSession::BringBack() {
  if (const auto device = IntroducedDevice()) device->OnDaemonBack();
  std::vector<std::shared_ptr<Target>> all;
  {
    std::lock_guard lock(mutex_);
    all.assign(live_.begin(), live_.end());
  }
  const auto rest = std::partition(all.begin(), all.end(), [](const std::shared_ptr<Target>& target) {
    return target->rank() == Target::Rank::kEndpoint;
  });
  BringBack({all.begin(), rest});
  {
    std::lock_guard lock(mutex_);
    state_ = State::kReturning;
  }
  BringBack({rest, all.end()});
}

void BrokerSession::BringBack(const std::vector<std::shared_ptr<Target>>& targets) {
  auto waiting = std::make_shared<std::size_t>(targets.size());
  gathering = this;
  for (const auto& target : targets) {
    target->OnSessionBack([this, waiting] {
      std::lock_guard lock(mutex_);
      if (--*waiting == 0) changed_.notify_all();
    });
  }
  gathering = nullptr;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Link> link = link_;
  lock.unlock();
  SendGathered(*link);
  lock.lock();
  changed_.wait(lock, [&] { return *waiting == 0 || link->over; });
}

bool BrokerSession::Gather(Link& link, std::vector<std::byte>& message) {
  if (gathering != this || link.lane_messages == nullptr) return false;
  gathered_.push_back(std::move(message));
  if (gathered_.size() == kTogether) SendGathered(link);
  return true;
}

void BrokerSession::SendGathered(Link& link) {
  if (gathered_.empty()) return;
  // After a failed write the session has ended, and the keeper completes all pending operations.
  link.lane_messages->SendTogether(gathered_);
  gathered_.clear();
  link.carrier->Attend();
}

void BrokerSession::Carry(const void* owner, CounterSlot from, CounterSlot to) {
  carried_.Add(owner, std::move(from), std::move(to));
  if (!carrying_.exchange(true))
    PostAt(std::chrono::steady_clock::now() + kCarryInterval, [this] { CopyCounters(); });
}

void BrokerSession::CopyCounters() {
  carrying_ = false;
  if (!carried_.Copy() || carrying_.exchange(true)) return;
  PostAt(std::chrono::steady_clock::now() + kCarryInterval, [this] { CopyCounters(); });
}

template <typename Value>
void BrokerSession::Call(std::function<void(Value)> BrokerSession::*kept, Value value) {
  {
    std::lock_guard lock(mutex_);
    if (!(this->*kept)) return;  // Without a callback no dispatch thread is started.
  }
  dispatcher_.Post([self = shared_from_this(), kept, value] {
    std::function<void(Value)> callback;
    {
      std::lock_guard lock(self->mutex_);
      callback = (*self).*kept;
    }
    if (callback) callback(value);
  });
}

void BrokerSession::Tell(bool connected) {
  Call(&BrokerSession::callback_, connected);
}

void BrokerSession::Tell(AdapterChange change) {
  Call(&BrokerSession::adapter_callback_, change);
}

}  // namespace nd::client
