// SPDX-License-Identifier: Apache-2.0
// Sends operations, receives completions and events. session_keeper.cc handles the loss of the broker.
#include "client-lib/core/broker_session.h"

#include <algorithm>
#include <utility>

#include "base/os/self.h"
#include "client-lib/core/session_link.h"
#include "session/codec.h"
#include "session/makes_queue_pair.h"

namespace nd::client {
namespace {

thread_local const BrokerSession* reading = nullptr;
thread_local bool reads_for_itself = false;  // This thread is in AwaitReply().

constexpr Duration kCloseTimeout = std::chrono::seconds(10);

}  // namespace

BrokerSession::BrokerSession(SessionOptions options)
    : options_(std::move(options)),
      random_(static_cast<std::minstd_rand::result_type>(
          std::chrono::steady_clock::now().time_since_epoch().count() ^ os::ProcessNumber())) {}

BrokerSession::~BrokerSession() {
  // The keeper released the last reference: it cannot join itself and accesses no member any more.
  if (keeper_.joinable()) keeper_.detach();
}

Result<std::shared_ptr<BrokerSession>> BrokerSession::Open(SessionOptions options) {
  auto session = std::make_shared<BrokerSession>(std::move(options));
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

Status BrokerSession::Unreachable(const Status& why) {
  const std::string reason = why.message().empty() ? "" : " (" + why.message() + ")";
  return {StatusCode::kDeviceRemoved,
          "the broker went away, and with it this operation or its object" + reason,
          Detail::kBrokerUnreachable};
}

bool BrokerSession::TakesOperations() const {
  return (state_ == State::kUp || state_ == State::kReturning) && link_ && !link_->over;
}

Status BrokerSession::Submit(session::Operation op, std::uint32_t epoch, Done done, Sender sender,
                             Ticket* ticket) {
  // An object that is restored already may be closed while others are being restored.
  const bool early = sender == Sender::kKeeper || std::holds_alternative<session::CloseOp>(op);
  return Send({0, std::move(op)}, early, epoch, std::move(done), ticket, sender);
}

Result<session::Handle> BrokerSession::SubmitAhead(session::Operation op, std::uint32_t epoch, Done done) {
  session::OpId number = 0;
  Status sent = Send({0, std::move(op)}, false, epoch, std::move(done), nullptr, Sender::kPutOff, &number);
  if (!sent.ok()) return sent;
  return session::Handle::NameOf(number);
}

std::shared_ptr<MappedCounters> BrokerSession::spares(std::uint32_t epoch) const {
  if (in_child()) return nullptr;
  std::lock_guard lock(mutex_);
  const bool named = session::Handle::NameOf(last_op_ + 1).value != 0;
  return TakesOperations() && epoch == epoch_ && named ? link_->lane.counters() : nullptr;
}

bool BrokerSession::Pass(Link& link, std::span<const std::byte> bytes, Sender sender) {
  if (sender == Sender::kAtOnce) return link.lane_messages != nullptr && link.lane_messages->TrySend(bytes);
  if (sender == Sender::kPutOff && link.lane_messages != nullptr) {
    link.lane_messages->SendLater(bytes);
  } else {
    link.carrier->Send(bytes);
  }
  return true;
}

// `early`: also before the session is established.
Status BrokerSession::Send(session::ClientMessage message, bool early, std::uint32_t epoch, Done done,
                           Ticket* ticket, Sender sender, session::OpId* number) {
  const bool unhurried = sender != Sender::kApplication && sender != Sender::kKeeper;
  const auto* op = std::get_if<session::Operation>(&message.content);
  const bool makes_queue_pair = op != nullptr && session::MakesQueuePair(*op);
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    const bool open = TakesOperations() || (early && state_ == State::kConnecting && link_ && !link_->over);
    if (!open || (epoch != 0 && epoch != epoch_)) return Unreachable();
    message.op_id = ++last_op_;
    if (number != nullptr) *number = message.op_id;
    link = link_;
    link->pending.emplace(message.op_id,
                          Link::Pending{makes_queue_pair, ticket != nullptr, unhurried, std::move(done)});
    if (!unhurried) ++link->hurried;
    if (ticket != nullptr) *ticket = {link, message.op_id};
  }
  // After a failed write the session has ended, and the keeper completes all pending operations.
  if (op != nullptr && link->lane.gives_sockets()) {
    if (const auto* connect = std::get_if<session::ConnectOp>(op)) {
      GiveSocketFor(*connect, message.op_id, link->lane);
    }
  }
  std::vector<std::byte> bytes;
  session::Append(message, &bytes);
  if (sender == Sender::kKeeper && Gather(*link, bytes)) return {};
  if (!Pass(*link, bytes, sender)) {
    decltype(link->pending)::node_type dropped;  // Destroyed outside the lock.
    std::lock_guard lock(mutex_);
    dropped = link->pending.extract(message.op_id);
    // Otherwise the end of the session has completed it meanwhile.
    if (dropped) return StatusCode::kDeviceBusy;
  }
  if (ticket == nullptr && !unhurried) link->carrier->Attend();
  return {};
}

void BrokerSession::AwaitReply(const Ticket& ticket) {
  if (!ticket.link) return;
  struct Mark {
    Mark() : before(std::exchange(reads_for_itself, true)) {}
    ~Mark() { reads_for_itself = before; }
    const bool before;
  } mark;
  ticket.link->carrier->ReadWhile([&] {
    std::lock_guard lock(mutex_);
    return ticket.link->pending.contains(ticket.op);
  });
}

void BrokerSession::Report(session::TransportReportOp report, std::uint32_t epoch) {
  std::shared_ptr<Link> link;
  {
    std::lock_guard lock(mutex_);
    if (!link_ || link_->over || (epoch != 0 && epoch != epoch_)) return;
    link = link_;
  }
  std::vector<std::byte> bytes;
  session::Append(session::ClientMessage{0, std::move(report)}, &bytes);
  link->carrier->Send(bytes);
}

Result<std::shared_ptr<CallState>> BrokerSession::Begin(const Caller& caller) {
  if (in_child()) return Status(StatusCode::kInvalidHandle, "this handle belongs to the parent process");
  auto state = caller.blocks() ? std::make_shared<CallState>() : caller.state();
  if (!state || !state->Start(caller.blocks() ? nullptr : port_)) {
    return Status(StatusCode::kInvalidParameter,
                  "the Request is in use by an operation that has not finished");
  }
  return state;
}

void BrokerSession::Finish(const std::shared_ptr<CallState>& state, Status status) {
  state->Finish(std::move(status), dispatcher_);
}

void BrokerSession::FinishClose(const std::shared_ptr<CallState>& state, std::function<void()> after) {
  dispatcher_.PostUnlessUnused([self = shared_from_this(), state, after = std::move(after)]() mutable {
    state->Finish({}, self->dispatcher_);
    if (after) self->dispatcher_.PostUnlessUnused(std::move(after));
  });
}

Status BrokerSession::Outcome(const Caller& caller, const std::shared_ptr<CallState>& state) {
  return caller.blocks() ? state->GetResult(true) : Status(StatusCode::kPending);
}

Status BrokerSession::Perform(session::Operation op, std::uint32_t epoch, const Caller& caller, Then then) {
  auto begun = Begin(caller);
  if (!begun.ok()) return begun.status();
  const std::shared_ptr<CallState> state = *begun;
  Ticket ticket;
  Status sent = Submit(
      std::move(op), epoch,
      [self = shared_from_this(), state, then = std::move(then)](Reply&& reply) mutable {
        Status status = then ? then(reply) : reply.status;
        self->Finish(state, std::move(status));
      },
      Sender::kApplication, caller.blocks() ? &ticket : nullptr);
  if (!sent.ok()) {
    state->Abort();
    return sent;
  }
  AwaitReply(ticket);
  return Outcome(caller, state);
}

Result<Reply> BrokerSession::Call(session::Operation op, std::uint32_t epoch) {
  Reply result;
  Status status = Perform(std::move(op), epoch, {}, [&result](Reply& reply) {
    result = std::move(reply);
    return result.status;
  });
  if (!status.ok()) return status;
  return result;
}

// Hello, or opening the adapter of a new link. Bounded, because a silent broker must not block Open() or the
// keeper for ever.
Result<Reply> BrokerSession::CallWithin(session::ClientMessage message, const char* what, Duration timeout) {
  auto answer = std::make_shared<std::optional<Reply>>();
  Status sent = Send(std::move(message), true, 0, [this, answer](Reply&& reply) {
    std::lock_guard lock(mutex_);
    *answer = std::move(reply);
    changed_.notify_all();
  });
  if (!sent.ok()) return sent;
  std::unique_lock lock(mutex_);
  const std::shared_ptr<Link> link = link_;
  changed_.wait_for(lock, timeout, [&] { return answer->has_value() || link->over; });
  if (!answer->has_value() && link->over) return link->why;
  if (!answer->has_value()) {
    return Status(StatusCode::kDeviceNotReady, std::string("the broker did not answer ") + what + " in time",
                  Detail::kBrokerUnreachable);
  }
  if (!(*answer)->status.ok()) return (*answer)->status;
  return std::move(**answer);
}

void BrokerSession::PostAt(Time when, std::function<void()> task) {
  bool first;
  {
    std::lock_guard lock(mutex_);
    const auto added = tasks_.emplace(when, std::move(task));
    first = added == tasks_.begin();
  }
  if (first) Wake();  // Otherwise the keeper wakes earlier anyway.
}

void BrokerSession::Wake() {
  wake_.Set();
}

void BrokerSession::Register(session::Handle handle, std::shared_ptr<Target> target) {
  std::lock_guard lock(mutex_);
  by_handle_[handle] = std::move(target);
}

void BrokerSession::Unregister(session::Handle handle) {
  std::shared_ptr<Target> kept;  // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  if (const auto it = by_handle_.find(handle); it != by_handle_.end()) {
    kept = std::move(it->second);
    by_handle_.erase(it);
  }
}

void BrokerSession::AddLive(std::shared_ptr<Target> target) {
  std::lock_guard lock(mutex_);
  live_.insert(std::move(target));
}

void BrokerSession::RemoveLive(const std::shared_ptr<Target>& target) {
  bool closing;
  {
    std::lock_guard lock(mutex_);
    live_.erase(target);
    changed_.notify_all();
    closing = closing_;
  }
  if (closing) Wake();  // The keeper may have waited for this one.
}

BrokerSession::Life BrokerSession::adapter() const {
  std::lock_guard lock(mutex_);
  return {adapter_handle_, epoch_};
}

std::shared_ptr<MappedCounters> BrokerSession::counters() const {
  std::lock_guard lock(mutex_);
  return link_ ? link_->lane.counters() : nullptr;
}

bool BrokerSession::reattach_makes_queue_pairs() const {
  std::lock_guard lock(mutex_);
  return link_ && link_->lane.reattach_makes_queue_pairs();
}

bool BrokerSession::connected() const {
  if (in_child()) return false;
  std::lock_guard lock(mutex_);
  return state_ == State::kUp && link_ && !link_->over;
}

void BrokerSession::SetCallback(std::function<void(bool)> callback) {
  if (callback) dispatcher_.Post([] {});  // Starts its thread before it is needed.
  std::function<void(bool)> former;       // Destroyed outside the lock.
  std::lock_guard lock(mutex_);
  former = std::exchange(callback_, std::move(callback));
}

void BrokerSession::SetAdapterCallback(std::function<void(AdapterChange)> callback) {
  std::function<void(AdapterChange)> former;  // Likewise.
  std::lock_guard lock(mutex_);
  former = std::exchange(adapter_callback_, std::move(callback));
}

std::shared_ptr<Target> BrokerSession::Find(session::Handle handle) {
  std::lock_guard lock(mutex_);
  const auto it = by_handle_.find(handle);
  return it == by_handle_.end() ? nullptr : it->second;
}

bool BrokerSession::OnMessage(Link& link, std::span<const std::byte> bytes) {
  Result<std::optional<session::ServerMessage>> message = session::DecodeServerMessage(bytes);
  if (!message.ok()) {
    Break(link, SessionEnded(StatusCode::kDeviceRemoved, message.status().message()));
    return false;
  }
  if (!message->has_value()) return true;  // A message of a newer broker.
  if (const auto* end = std::get_if<session::SessionEnd>(&**message)) {
    Break(link, SessionEnded(end->status.code(), end->status.message()));
    return false;
  }
  reading = this;
  std::visit(
      [&](auto& content) {
        using T = std::decay_t<decltype(content)>;
        if constexpr (std::is_same_v<T, session::Completion>) {
          OnReply(link, Reply(std::move(content)));
        } else if constexpr (!std::is_same_v<T, session::SessionEnd>) {
          {
            std::lock_guard lock(mutex_);
            link.answered_caller = false;
          }
          OnEvent(content);
        }
      },
      **message);
  reading = nullptr;
  return true;
}

void BrokerSession::OnEvent(const session::ConnectEvent& event) {
  std::uint32_t epoch;
  {
    std::lock_guard lock(mutex_);
    epoch = epoch_;
  }
  if (auto target = Find(event.listener)) return target->OnConnectEvent(event.connector, epoch);
  // The listener is gone, so the request is rejected at once.
  static_cast<void>(Submit(session::CloseOp{event.connector}, epoch, [](const Reply&) {}));
}

void BrokerSession::OnEvent(const session::DisconnectEvent& event) {
  if (auto target = Find(event.connector)) target->OnDisconnectEvent(event.reason);
}

void BrokerSession::OnEvent(const session::TransportCommand& command) {
  using What = session::TransportCommand::What;
  // A newer broker may have commands that this library does not know.
  if (command.what == What::kUnspecified || command.what > What::kPrepare) return;
  if (auto target = Find(command.connector)) return target->OnTransportCommand(command);
  if (command.what != What::kDisconnect) return;
  session::TransportReportOp report;
  report.connector = command.connector;
  report.what = session::TransportReportOp::What::kDisconnectDone;
  Report(std::move(report), 0);
}

void BrokerSession::OnEvent(const session::AdapterEvent& event) {
  using What = session::AdapterEvent::What;
  if (event.what == What::kEnabled) return Tell(AdapterChange::kEnabled);
  std::set<std::shared_ptr<Target>> targets;
  {
    std::lock_guard lock(mutex_);
    targets = live_;
  }
  for (const auto& target : targets) target->OnAdapterGone();
  Tell(event.what == What::kRemoved ? AdapterChange::kRemoved : AdapterChange::kDisabled);
}

void BrokerSession::OnReply(Link& link, Reply&& reply) {
  Link::Pending pending;
  {
    std::lock_guard lock(mutex_);
    const auto it = link.pending.find(reply.op_id);
    if (it == link.pending.end()) return;
    pending = std::move(it->second);
    link.pending.erase(it);
    if (!pending.unhurried) {
      --link.hurried;
      link.answered_caller = pending.caller_waits;
    } else if (!reads_for_itself) {
      link.answered_caller = false;  // The thread reads such answers one after the other, without a rest.
    }
  }
  if (reply.hand_off != 0 || pending.makes_queue_pair) {
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

bool BrokerSession::AwaitsNothing(const Link& link) {
  std::lock_guard lock(mutex_);
  return link.answered_caller && link.hurried == 0 && event_listeners_.load(std::memory_order_relaxed) == 0;
}

void BrokerSession::Break(Link& link, Status why) {
  {
    std::lock_guard lock(mutex_);
    if (link.over) return;
    link.over = true;
    link.why = std::move(why);
    changed_.notify_all();
  }
  Wake();
}

bool BrokerSession::OnOwnThread() const {
  return reading == this || dispatcher_.OnThread() || keeper_.get_id() == std::this_thread::get_id();
}

bool BrokerSession::AwaitRank(Target::Rank rank, Time deadline) {
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, deadline, [&] {
    return std::none_of(live_.begin(), live_.end(),
                        [rank](const auto& item) { return item->rank() <= rank; });
  });
}

void BrokerSession::CloseAll() {
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
    std::shared_ptr<Link> link;
    {
      std::lock_guard lock(mutex_);
      link = link_;
    }
    if (link) link->carrier->Attend();  // Here the answers are waited for.
    if (!own) AwaitRank(rank, deadline);
  }
  std::function<void(bool)> callback;  // May hold the last reference to an object.
  std::function<void(AdapterChange)> adapter_callback;
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    close_deadline_ = own ? deadline : std::chrono::steady_clock::now();
    callback = std::exchange(callback_, nullptr);
    adapter_callback = std::exchange(adapter_callback_, nullptr);
  }
  Wake();
  if (own) return;
  std::lock_guard lock(join_mutex_);
  if (keeper_.joinable()) keeper_.join();
}

}  // namespace nd::client
