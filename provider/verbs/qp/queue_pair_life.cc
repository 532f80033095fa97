// SPDX-License-Identifier: Apache-2.0
// The life of a queue pair: creation, states of the device, hand-over, flush, disconnect.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include "provider/queue_pair_rules.h"
#include "provider/verbs/attributes.h"
#include "provider/verbs/device_limits.h"
#include "provider/verbs/qp/queue_pair.h"
#include "provider/verbs/qp/work_completion.h"
#include "provider/verbs/transport.h"

namespace nd::provider::verbs {
namespace {

// How long a device may take to complete flushed requests before this file completes them.
constexpr Duration kFlushPatience = std::chrono::seconds(1);
constexpr Duration kFlushLook = std::chrono::microseconds(50);

int AccessOf(const Context& context) {
  int access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
  if (context.windows) access |= IBV_ACCESS_MW_BIND;
  return access;
}

Status ModifyFailure(const char* what, int error) {
  return {StatusCode::kInternalError,
          std::string("the device does not move the queue pair to ") + what + ": " + std::strerror(error),
          Detail::kTransport, error};
}

}  // namespace

VerbsQueuePair::VerbsQueuePair(std::shared_ptr<Context> context, const QpOptions& options)
    : context_(std::move(context)),
      receive_cq_(std::static_pointer_cast<VerbsCompletionQueue>(options.receive_cq)),
      initiator_cq_(std::static_pointer_cast<VerbsCompletionQueue>(options.initiator_cq)),
      srq_(std::static_pointer_cast<VerbsSharedReceiveQueue>(options.srq)),
      user_context_(options.context),
      max_receive_sge_(options.max_receive_sge),
      max_initiator_sge_(options.max_initiator_sge),
      inline_size_(options.inline_size),
      generation_(context_->next_generation.fetch_add(1, std::memory_order_relaxed)),
      counters_(options.counters != nullptr ? options.counters : &own_counters_),
      receives_(options.srq ? 1 : options.receive_depth),
      initiator_(options.initiator_depth),
      signal_every_(std::max(1u, options.initiator_depth / 2)),
      on_peer_closed_(options.on_peer_closed) {}

Result<std::shared_ptr<QueuePair>> VerbsQueuePair::Create(const std::shared_ptr<Context>& context,
                                                          const QpOptions& options) {
  const auto* const receive_cq = dynamic_cast<VerbsCompletionQueue*>(options.receive_cq.get());
  const auto* const initiator_cq = dynamic_cast<VerbsCompletionQueue*>(options.initiator_cq.get());
  const auto* const srq = dynamic_cast<VerbsSharedReceiveQueue*>(options.srq.get());
  if (context->forked()) return InParent();
  const Status bad =
      CheckOptions(options, context->info,
                   {.receive_cq = receive_cq != nullptr && receive_cq->context() == context,
                    .initiator_cq = initiator_cq != nullptr && initiator_cq->context() == context,
                    .srq = !options.srq || (srq != nullptr && srq->context() == context)});
  if (!bad.ok()) return bad;
  std::shared_ptr<VerbsQueuePair> queue_pair(new VerbsQueuePair(context, options));
  if (Status status = queue_pair->Build(options); !status.ok()) return status;
  return std::shared_ptr<QueuePair>(queue_pair);
}

Status VerbsQueuePair::Build(const QpOptions& options) {
  ibv_qp_init_attr attr{};
  attr.qp_context = this;
  attr.qp_type = IBV_QPT_RC;
  attr.send_cq = initiator_cq_->cq();
  attr.recv_cq = receive_cq_->cq();
  attr.srq = srq_ ? srq_->srq() : nullptr;
  attr.cap.max_send_wr = options.initiator_depth;
  attr.cap.max_recv_wr = srq_ ? 0 : options.receive_depth;
  attr.cap.max_send_sge = std::max(1u, options.max_initiator_sge);
  attr.cap.max_recv_sge = srq_ ? 0 : std::max(1u, options.max_receive_sge);
  attr.cap.max_inline_data = options.inline_size;
  Status status = Create(attr);
  if (status.ok() && !OwnerIsRecorded()) {
    ibv_qp* const unknown = std::exchange(qp_, nullptr);
    status = Create(attr);  // The new queue pair has another number, because the first one still exists.
    ibv_destroy_qp(unknown);
  }
  if (!status.ok()) return status;
  number_ = qp_->qp_num;
  receive_cq_->Attach(number_, this);
  if (initiator_cq_ != receive_cq_) initiator_cq_->Attach(number_, this);
  return {};
}

Status VerbsQueuePair::Create(ibv_qp_init_attr attr) {
  int error = 0;
  context_->OnLastingThread([&] {
    errno = 0;
    qp_ = ibv_create_qp(context_->pd, &attr);
    error = errno;
  });
  return qp_ == nullptr ? OpenFailure(context_->info.name, error) : ToInit();
}

// Kernel 6.1 sometimes does not record the owner of a queue pair whose number was in use a moment ago. The
// broker connects no queue pair without a recorded owner.
bool VerbsQueuePair::OwnerIsRecorded() const {
  const Status status = context_->CheckOwn(qp_->qp_num);
  return status.ok() || status.native() != ENOENT;
}

Status VerbsQueuePair::ToInit() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = context_->port;
  attr.qp_access_flags = static_cast<unsigned>(AccessOf(*context_));
  // The port is set on iWARP too, where it has no effect on the device. The kernel records it, and the search
  // for the owner needs it.
  int mask = IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT;
  if (!context_->iwarp) mask |= IBV_QP_PKEY_INDEX;
  const int error = Modify(attr, mask);
  return error == 0 ? Status() : ModifyFailure("INIT", error);
}

VerbsQueuePair::~VerbsQueuePair() {
  if (context_->forked() || qp_ == nullptr) {
    static_cast<void>(pin_.release());  // The descriptor belongs to the parent's connection.
    return;
  }
  Drop();
  Collect();
  receive_cq_->Detach(number_);
  initiator_cq_->Detach(number_);
  context_->DrainAsyncEvents();
  ibv_destroy_qp(qp_);
}

Status VerbsQueuePair::Prepare(std::span<const std::uint8_t> attributes) {
  auto transitions = DecodeTransitions(attributes);
  if (!transitions.ok()) return transitions.status();
  std::lock_guard lock(mutex_);
  if (state_ != State::kIdle) {
    return {StatusCode::kConnectionActive, "the queue pair has had a connection already"};
  }
  constexpr const char* kNames[] = {"INIT", "RTR", "RTS"};
  for (std::size_t i = 0; i < transitions->size(); ++i) {
    QpTransition& transition = (*transitions)[i];
    if (transition.attr.qp_state == IBV_QPS_INIT) {
      transition.attr.qp_access_flags = static_cast<unsigned>(AccessOf(*context_));
      transition.mask |= IBV_QP_ACCESS_FLAGS;
    }
    if (const int error = Modify(transition.attr, transition.mask); error != 0)
      return ModifyFailure(kNames[i], error);
  }
  state_ = State::kPrepared;
  return {};
}

Status VerbsQueuePair::Attach(HandOff hand_off) {
  const HandOffRecord& record = hand_off.record;
  if (context_->forked()) return InParent();
  if (record.magic != HandOffRecord::kMagic || record.version != HandOffRecord::kVersion ||
      record.size != sizeof(HandOffRecord) || record.fd_count != hand_off.fds.size() || record.fd_count > 1 ||
      record.transport != kTransport) {
    return {StatusCode::kInvalidParameter, "the hand-over record is not one of this version and provider"};
  }
  std::lock_guard lock(mutex_);
  if (state_ != State::kPrepared && !(context_->iwarp && state_ == State::kIdle)) {
    return {state_ == State::kClosed ? StatusCode::kInvalidDeviceState : StatusCode::kConnectionActive,
            "the queue pair was not prepared for this connection"};
  }
  if (record.fd_count == 1) {
    pin_ = std::move(hand_off.fds.front());
    static_cast<void>(::fcntl(pin_.get(), F_SETFD, FD_CLOEXEC));
  }
  read_outbound_.store(record.read_outbound, std::memory_order_relaxed);
  state_.store(State::kConnected, std::memory_order_release);
  return {};
}

void VerbsQueuePair::Collect() {
  receive_cq_->Collect();
  if (initiator_cq_ != receive_cq_) initiator_cq_->Collect();
}

void VerbsQueuePair::CancelRest(RequestRing* ring, VerbsCompletionQueue* queue) {
  while (PostedRequest* const request = ring->FinishOldest()) {
    queue->Push({StatusCode::kCanceled, 0, user_context_, request->context, request->type});
    request->window.reset();
    ring->Retire();
  }
}

void VerbsQueuePair::CancelAll() {
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  static_cast<void>(
      Modify(attr, IBV_QP_STATE));  // Fails when the device is gone; the requests are then completed below.
  const Time deadline = Time(std::chrono::steady_clock::now()) + kFlushPatience;
  const auto busy = [&] { return initiator_.outstanding() > 0 || (!srq_ && receives_.outstanding() > 0); };
  Collect();
  while (busy() && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(kFlushLook);
    Collect();
  }
  CancelRest(&initiator_, initiator_cq_.get());
  if (!srq_) CancelRest(&receives_, receive_cq_.get());
}

void VerbsQueuePair::ForgetWindows() {
  for (const auto& bound : windows_) {
    if (const auto window = bound.lock()) window->Unbound();
  }
  windows_.clear();
}

Status VerbsQueuePair::Flush() {
  if (context_->forked()) return InParent();
  std::lock_guard lock(mutex_);
  if (state_ == State::kClosed) return {};
  ending_.store(true, std::memory_order_release);
  const bool fresh = state_ == State::kIdle;
  if (fresh && receives_.outstanding() == 0) {
    ending_.store(false, std::memory_order_release);
    return {};
  }
  if (!fresh) state_.store(State::kClosed, std::memory_order_release);
  CancelAll();
  if (!fresh) return {};
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  if (Modify(attr, IBV_QP_STATE) != 0 || !ToInit().ok()) {
    state_.store(State::kClosed, std::memory_order_release);  // This device cannot leave the state ERR.
    return {};
  }
  ending_.store(false, std::memory_order_release);
  return {};
}

void VerbsQueuePair::Drop() {
  if (context_->forked()) return;
  std::lock_guard lock(mutex_);
  if (state_ == State::kClosed) {
    pin_.reset();
    return;
  }
  ending_.store(true, std::memory_order_release);
  on_peer_closed_ = nullptr;
  state_.store(State::kClosed, std::memory_order_release);
  CancelAll();
  ForgetWindows();
  pin_.reset();  // When the broker is gone, closing the channel ends the connection.
}

void VerbsQueuePair::Disconnect(Duration timeout, std::function<void(Status)> done) {
  if (context_->forked()) return done(InParent());
  {
    std::lock_guard lock(mutex_);
    ending_.store(true, std::memory_order_release);
    on_peer_closed_ = nullptr;
  }
  Collect();
  if (initiator_.outstanding() == 0 && (srq_ || receives_.outstanding() == 0)) {
    Drop();
    return done({});
  }
  // This call must not block, but requests on the wire and the flush may take long.
  std::thread([self = shared_from_this(), timeout, done = std::move(done)] {
    const Time deadline = Time(std::chrono::steady_clock::now()) + timeout;
    bool late = false;
    for (self->Collect(); self->initiator_.outstanding() > 0 && !late; self->Collect()) {
      std::this_thread::sleep_for(kFlushLook);
      late = std::chrono::steady_clock::now() >= deadline;
    }
    self->Drop();
    done(late ? Status(StatusCode::kIoTimeout, "requests were still on the wire when the time was up")
              : Status());
  }).detach();
}

void VerbsQueuePair::TellPeerClosed(ibv_wc_status status) {
  std::function<void(DisconnectReason, Status)> tell;
  {
    std::lock_guard lock(mutex_);
    tell.swap(on_peer_closed_);
  }
  if (tell) tell(ReasonOf(status), CauseOf(status));
}

}  // namespace nd::provider::verbs
