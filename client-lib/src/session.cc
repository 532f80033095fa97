// SPDX-License-Identifier: Apache-2.0
// Operations out, completions and events in. What happens when the broker goes away is session_keeper.cc.
#include "client-lib/src/session.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "client-lib/src/session_link.h"

namespace nd::client {
namespace {

thread_local const Session* reading = nullptr;

constexpr Duration kCloseTimeout = std::chrono::seconds(10);

}  // namespace

Session::Session(SessionOptions options)
    : options_(std::move(options)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      random_(static_cast<std::minstd_rand::result_type>(
          std::chrono::steady_clock::now().time_since_epoch().count() ^ getpid())) {}

Session::~Session() {
  // The keeper itself let go last: nobody else can join it, and it touches nothing any more.
  if (keeper_.joinable()) keeper_.detach();
}

Result<std::shared_ptr<Session>> Session::Open(SessionOptions options) {
  auto session = std::make_shared<Session>(std::move(options));
  if (Status status = session->ConnectLink(); !status.ok()) {
    session->TearDown(status);
    return status;
  }
  {
    std::lock_guard lock(session->mutex_);
    session->state_ = State::kUp;
  }
  session->keeper_ = std::thread([session] { session->Keep(); });
  return session;
}

Status Session::Unreachable() const {
  return {StatusCode::kDeviceRemoved, "the broker went away, and with it this operation or its object",
          Detail::kBrokerUnreachable};
}

Status Session::Submit(Op op, std::uint32_t epoch, Done done, Sender sender) {
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    // What is back already may be closed while others are still being brought back: nobody else would do it.
    const bool early = sender == Sender::kKeeper || op.kind == OpKind::kClose;
    const bool open = state_ == State::kUp || (state_ == State::kConnecting && early);
    if (!open || !link_ || link_->over || (epoch != 0 && epoch != epoch_)) return Unreachable();
    op.id = ++last_op_;
    link = link_;
    link->pending.emplace(op.id, Link::Pending{op.kind, std::move(done)});
  }
  // A failed write means that the stream is over: the keeper completes everything that is pending then.
  link->stream->Send(op);
  return {};
}

void Session::Say(const Op& report, std::uint32_t epoch) {
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    if (!link_ || link_->over || (epoch != 0 && epoch != epoch_)) return;
    link = link_;
  }
  link->stream->Send(report);
}

Result<std::shared_ptr<Request::State>> Session::Begin(Request* request) {
  if (in_child()) return Status(StatusCode::kInvalidHandle, "this handle belongs to the parent process");
  auto state = request == nullptr ? std::make_shared<Request::State>() : request->state();
  if (!state || !state->Start(request == nullptr ? nullptr : port_)) {
    return Status(StatusCode::kInvalidParameter,
                  "the Request is in use by an operation that has not finished");
  }
  return state;
}

void Session::Finish(const std::shared_ptr<Request::State>& state, Status status) {
  state->Finish(std::move(status), dispatcher_);
}

void Session::FinishClose(const std::shared_ptr<Request::State>& state, std::function<void()> after) {
  dispatcher_.PostUnlessUnused([self = shared_from_this(), state, after = std::move(after)]() mutable {
    state->Finish({}, self->dispatcher_);
    if (after) self->dispatcher_.PostUnlessUnused(std::move(after));
  });
}

Status Session::Outcome(Request* request, const std::shared_ptr<Request::State>& state) {
  return request == nullptr ? state->GetResult(true) : Status(StatusCode::kPending);
}

Status Session::Perform(Op op, std::uint32_t epoch, Request* request, Then then, bool closing,
                        std::function<void()> after) {
  auto begun = Begin(request);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<Request::State> state = *begun;
  // A close that blocks the dispatch thread cannot wait for that thread to deliver it.
  const bool direct = request == nullptr && dispatcher_.OnThread();
  Status sent = Submit(std::move(op), epoch,
                       [self = shared_from_this(), state, then = std::move(then), closing, direct,
                        after = std::move(after)](Reply reply) mutable {
                         Status status = then ? then(reply) : reply.status;
                         if (!closing) return self->Finish(state, std::move(status));
                         if (!direct) return self->FinishClose(state, std::move(after));
                         self->Finish(state, {});
                         if (after) self->dispatcher_.PostUnlessUnused(std::move(after));
                       });
  if (!sent.ok()) {
    state->Abort();
    return sent;
  }
  return Outcome(request, state);
}

Result<Reply> Session::Call(Op op, std::uint32_t epoch) {
  Reply result;
  Status status = Perform(std::move(op), epoch, nullptr, [&result](Reply& reply) {
    result = std::move(reply);
    return result.status;
  });
  if (!status.ok()) return status;
  return result;
}

// A greeting or the adapter of a new link: bounded, because a broker that accepts and then says nothing must
// not hold Open() or the keeper for ever.
Result<Reply> Session::CallWithin(Op op, Duration timeout) {
  const std::string what = op.kind == OpKind::kHello ? "the greeting" : "the request for its adapters";
  auto answer = std::make_shared<std::optional<Reply>>();
  Status sent = Submit(
      std::move(op), 0,
      [this, answer](Reply reply) {
        std::lock_guard lock(mutex_);
        *answer = std::move(reply);
        changed_.notify_all();
      },
      Sender::kKeeper);
  if (!sent.ok()) return sent;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Link> link = link_;
  changed_.wait_for(lock, timeout, [&] { return answer->has_value() || link->over; });
  if (!answer->has_value() && link->over) return link->why;
  if (!answer->has_value()) {
    return Status(StatusCode::kDeviceNotReady, "the broker did not answer " + what + " in time",
                  Detail::kBrokerUnreachable);
  }
  if (!(*answer)->status.ok()) return (*answer)->status;
  return std::move(**answer);
}

void Session::PostAt(Time when, std::function<void()> task) {
  bool first;
  {
    std::lock_guard lock(mutex_);
    const auto added = tasks_.emplace(when, std::move(task));
    first = added == tasks_.begin();
  }
  if (first) Wake();  // Else the keeper wakes before anyway.
}

void Session::Wake() {
  eventfd_write(wake_.get(), 1);
}

void Session::Register(std::uint64_t handle, std::shared_ptr<Target> target) {
  std::lock_guard lock(mutex_);
  by_handle_[handle] = std::move(target);
}

void Session::Unregister(std::uint64_t handle) {
  std::shared_ptr<Target> kept;  // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  if (const auto it = by_handle_.find(handle); it != by_handle_.end()) {
    kept = std::move(it->second);
    by_handle_.erase(it);
  }
}

void Session::AddLive(std::shared_ptr<Target> target) {
  std::lock_guard lock(mutex_);
  live_.insert(std::move(target));
}

void Session::RemoveLive(const std::shared_ptr<Target>& target) {
  bool closing;
  {
    std::lock_guard lock(mutex_);
    live_.erase(target);
    changed_.notify_all();
    closing = closing_;
  }
  if (closing) Wake();  // The keeper may have waited for this one.
}

Session::Life Session::adapter() const {
  std::lock_guard lock(mutex_);
  return {adapter_handle_, epoch_};
}

std::shared_ptr<CountersPages> Session::counters() const {
  std::lock_guard lock(mutex_);
  return link_ ? link_->lane.counters() : nullptr;
}

bool Session::connected() const {
  if (in_child()) return false;
  std::lock_guard lock(mutex_);
  return state_ == State::kUp && link_ && !link_->over;
}

void Session::SetCallback(std::function<void(bool)> callback) {
  if (callback) dispatcher_.Post([] {});  // Its thread is there before it is needed in the middle of trouble.
  std::function<void(bool)> former;       // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  former = std::exchange(callback_, std::move(callback));
}

std::shared_ptr<Target> Session::Find(std::uint64_t handle) {
  std::lock_guard lock(mutex_);
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

void Session::OnMessage(Link& link, Incoming message) {
  reading = this;
  if (auto* reply = std::get_if<Reply>(&message)) {
    OnReply(link, std::move(*reply));
  } else if (const auto* request = std::get_if<ConnectEvent>(&message)) {
    std::uint32_t epoch;
    {
      std::lock_guard lock(mutex_);
      epoch = epoch_;
    }
    if (auto target = Find(request->listener)) {
      target->OnConnectEvent(request->connector, epoch);
    } else {
      // The listener is gone: nobody will answer, so the peer hears it at once.
      Op close(OpKind::kClose, request->connector);
      static_cast<void>(Submit(std::move(close), epoch, [](const Reply&) {}));
    }
  } else if (const auto* gone = std::get_if<DisconnectEvent>(&message)) {
    if (auto target = Find(gone->connector)) target->OnDisconnectEvent(gone->reason);
  } else if (const auto* command = std::get_if<TransportCommand>(&message)) {
    if (auto target = Find(command->connector)) {
      target->OnTransportCommand(*command);
    } else if (command->what == TransportCommand::What::kDisconnect) {
      Op report(OpKind::kTransportReport, command->connector);
      report.what = ReportWhat::kDisconnectDone;
      Say(report, 0);
    }
  } else {
    std::set<std::shared_ptr<Target>> targets;
    {
      std::lock_guard lock(mutex_);
      targets = live_;
    }
    for (const auto& target : targets) target->OnAdapterGone();
  }
  reading = nullptr;
}

void Session::OnReply(Link& link, Reply reply) {
  Link::Pending pending;
  {
    std::lock_guard lock(mutex_);
    const auto it = link.pending.find(reply.id);
    if (it == link.pending.end()) return;
    pending = std::move(it->second);
    link.pending.erase(it);
  }
  if (reply.hand_off != 0 || pending.kind == OpKind::kCreateQueuePair) {
    Status drained = link.lane.Drain();
    if (reply.hand_off != 0) reply.transport = link.lane.Take(reply.hand_off);
    if (drained.ok() && reply.hand_off != 0 && !reply.transport) {
      drained = Status(StatusCode::kInternalError, "the broker named a hand-over that it never sent",
                       Detail::kProtocol);
    }
    if (!drained.ok()) {
      if (reply.hand_off != 0 && !reply.transport) reply.status = Unreachable();
      Break(link, drained);
    }
  }
  pending.done(std::move(reply));
}

void Session::Break(Link& link, Status why) {
  {
    std::lock_guard lock(mutex_);
    if (link.over) return;
    link.over = true;
    link.why = std::move(why);
    changed_.notify_all();
  }
  Wake();
}

bool Session::OnOwnThread() const {
  return reading == this || dispatcher_.OnThread() || keeper_.get_id() == std::this_thread::get_id();
}

bool Session::AwaitRank(Target::Rank rank, Time deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] {
    return std::none_of(live_.begin(), live_.end(),
                        [rank](const auto& item) { return item->rank() <= rank; });
  });
}

void Session::CloseAll() {
  const Time deadline = std::chrono::steady_clock::now() + kCloseTimeout;
  const bool own = OnOwnThread();
  using Rank = Target::Rank;
  for (Rank rank : {Rank::kConnector, Rank::kQueuePair, Rank::kQueue, Rank::kEndpoint}) {
    std::vector<std::shared_ptr<Target>> targets;
    {
      std::lock_guard lock(mutex_);
      std::copy_if(live_.begin(), live_.end(), std::back_inserter(targets),
                   [rank](const auto& item) { return item->rank() == rank; });
    }
    for (const auto& target : targets) target->BeginClose();
    if (!own) AwaitRank(rank, deadline);
  }
  std::function<void(bool)> callback;  // May hold the last reference to anything.
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    close_deadline_ = own ? deadline : std::chrono::steady_clock::now();
    callback = std::exchange(callback_, nullptr);
  }
  Wake();
  if (own) return;
  std::lock_guard lock(join_mutex_);
  if (keeper_.joinable()) keeper_.join();
}

}  // namespace nd::client
