// SPDX-License-Identifier: Apache-2.0
#include "provider/networkdirect/qp/queue_pair_win.h"

#include <utility>

#include "provider/queue_pair_rules.h"

namespace nd::provider::networkdirect {
namespace {

std::atomic<std::uint32_t> last_context{0};  // Of queue pairs, in the completions of an adapter.

void* ContextOf(std::uint32_t number) {
  return reinterpret_cast<void*>(std::uintptr_t{number});
}

}  // namespace

Result<std::shared_ptr<QueuePair>> NdQueuePair::Make(const std::shared_ptr<Context>& context,
                                                     const QpOptions& options) {
  const auto of_this = [&context](const std::shared_ptr<CompletionQueue>& queue) {
    const auto* const own = dynamic_cast<const NdCompletionQueue*>(queue.get());
    return own != nullptr && own->context() == context;
  };
  const auto* const srq = dynamic_cast<const NdSharedReceiveQueue*>(options.srq.get());
  const OwnQueues own{of_this(options.receive_cq), of_this(options.initiator_cq),
                      !options.srq || (srq != nullptr && srq->context() == context)};
  if (Status status = CheckOptions(options, context->info, own); !status.ok()) return status;
  auto made = std::make_shared<NdQueuePair>(context, options);
  if (Status status = made->Build(options); !status.ok()) return status;
  return std::shared_ptr<QueuePair>(std::move(made));
}

NdQueuePair::NdQueuePair(std::shared_ptr<Context> context, const QpOptions& options)
    : context_(std::move(context)),
      receive_cq_(std::static_pointer_cast<NdCompletionQueue>(options.receive_cq)),
      initiator_cq_(std::static_pointer_cast<NdCompletionQueue>(options.initiator_cq)),
      srq_(std::static_pointer_cast<NdSharedReceiveQueue>(options.srq)),
      user_context_(options.context),
      max_receive_sge_(options.max_receive_sge),
      max_initiator_sge_(options.max_initiator_sge),
      inline_size_(options.inline_size),
      on_peer_closed_(options.on_peer_closed) {
  if (options.counters != nullptr) counters_ = options.counters;
}

Status NdQueuePair::Build(const QpOptions& options) {
  const std::uint32_t context = ++last_context;
  spi::IND2Adapter& adapter = *context_->adapter.get();
  const HRESULT hr =
      srq_ ? adapter.CreateQueuePairWithSrq(
                 spi::kIid<spi::IND2QueuePair>, receive_cq_->queue(), initiator_cq_->queue(), srq_->queue(),
                 ContextOf(context), options.initiator_depth, max_initiator_sge_, inline_size_, pair_.out())
           : adapter.CreateQueuePair(spi::kIid<spi::IND2QueuePair>, receive_cq_->queue(),
                                     initiator_cq_->queue(), ContextOf(context), options.receive_depth,
                                     options.initiator_depth, max_receive_sge_, max_initiator_sge_,
                                     inline_size_, pair_.out());
  if (Status status = StatusOf(hr, "CreateQueuePair"); !status.ok()) return status;
  completions_ = context;
  number_ = context_->connections->Add(pair_);
  UseCounters(counters_);
  return {};
}

NdQueuePair::~NdQueuePair() {
  if (number_ == 0) return;
  context_->connections->Remove(number_);
  receive_cq_->Detach(completions_);
  initiator_cq_->Detach(completions_);
}

void NdQueuePair::UseCounters(QpCounters* counters) {
  counters_ = counters;
  receive_cq_->Attach(completions_, user_context_, counters);
  initiator_cq_->Attach(completions_, user_context_, counters);
}

Status NdQueuePair::Attach(HandOff hand_off) {
  const HandOffRecord& record = hand_off.record;
  if (record.transport != kTransport || !hand_off.fds.empty()) {
    return {StatusCode::kInvalidParameter, "the hand-over is not one of Network Direct"};
  }
  if (state_ != State::kIdle) return {StatusCode::kConnectionActive, "the queue pair has a connection"};
  read_outbound_ = record.read_outbound;
  flush_on_goodbye_ = (record.flags & kHandOffFlushOnGoodbye) != 0;
  state_ = State::kConnected;  // Before OnPeerGone() can come.
  Status status = context_->connections->Attach(NumberIn(PayloadOf<Payload>(record)), number_,
                                                std::static_pointer_cast<ConnectionUser>(shared_from_this()));
  if (!status.ok()) state_ = State::kIdle;
  return status;
}

Status NdQueuePair::Check(RequestType type, std::span<const Sge> sges, std::uint32_t flags,
                          std::uint32_t* length) const {
  Status status = CheckFlags(type, flags);
  if (status.ok()) status = CheckSges(sges, max_initiator_sge_, context_->info.max_transfer_length, length);
  if (status.ok() && (flags & kOpInline) != 0) status = CheckInline(sges, *length, inline_size_);
  return status.ok() ? CheckState(type) : status;
}

// The adapter knows whether its queue is full.
Status NdQueuePair::CheckState(RequestType type) const {
  return CheckPostable(type, state_ == State::kConnected, /*full=*/false, read_outbound_);
}

void NdQueuePair::Count(std::atomic<std::uint64_t> QpCounters::*counter, std::uint32_t bytes) {
  QpCounters::Add(counters_->*counter, 1);
  QpCounters::Add(counters_->tx_bytes, bytes);
}

Status NdQueuePair::Receive(void* request_context, std::span<const Sge> sges) {
  if (srq_) return ReceivesAreShared();
  std::uint32_t length = 0;
  Status status = CheckSges(sges, max_receive_sge_, context_->info.max_transfer_length, &length);
  if (!status.ok()) return status;
  return StatusOf(pair_->Receive(request_context, sges.data(), static_cast<ULONG>(sges.size())), "Receive");
}

Status NdQueuePair::Send(void* request_context, std::span<const Sge> sges, std::uint32_t flags) {
  std::uint32_t length = 0;
  Status status = Check(RequestType::kSend, sges, flags, &length);
  if (!status.ok()) return status;
  status =
      StatusOf(pair_->Send(request_context, sges.data(), static_cast<ULONG>(sges.size()), flags), "Send");
  if (status.ok()) Count(&QpCounters::tx_sends, length);
  return status;
}

Status NdQueuePair::Write(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                          std::uint32_t remote_token, std::uint32_t flags) {
  std::uint32_t length = 0;
  Status status = Check(RequestType::kWrite, sges, flags, &length);
  if (!status.ok()) return status;
  status = StatusOf(pair_->Write(request_context, sges.data(), static_cast<ULONG>(sges.size()),
                                 remote_address, remote_token, flags),
                    "Write");
  if (status.ok()) Count(&QpCounters::tx_writes, length);
  return status;
}

Status NdQueuePair::Read(void* request_context, std::span<const Sge> sges, std::uint64_t remote_address,
                         std::uint32_t remote_token, std::uint32_t flags) {
  std::uint32_t length = 0;
  Status status = Check(RequestType::kRead, sges, flags, &length);
  if (!status.ok()) return status;
  status = StatusOf(pair_->Read(request_context, sges.data(), static_cast<ULONG>(sges.size()), remote_address,
                                remote_token, flags),
                    "Read");
  if (status.ok()) Count(&QpCounters::tx_reads, 0);
  return status;
}

Status NdQueuePair::BindWindow(void* request_context, MemoryRegion& region, MemoryWindow& window,
                               void* address, std::size_t length, std::uint32_t flags) {
  auto* const own_region = dynamic_cast<NdRegion*>(&region);
  auto* const own_window = dynamic_cast<NdWindow*>(&window);
  if (own_region == nullptr || own_region->context() != context_) return OtherAdaptersRegion();
  if (own_window == nullptr || own_window->context() != context_)
    return OtherAdaptersWindow(StatusCode::kInvalidParameter3);
  Status status = CheckFlags(RequestType::kBind, flags);
  if (status.ok()) status = CheckState(RequestType::kBind);
  if (!status.ok()) return status;
  return StatusOf(
      pair_->Bind(request_context, own_region->region(), own_window->window(), address, length, flags),
      "Bind");
}

Status NdQueuePair::Invalidate(void* request_context, MemoryWindow& window, std::uint32_t flags) {
  auto* const own = dynamic_cast<NdWindow*>(&window);
  if (own == nullptr || own->context() != context_)
    return OtherAdaptersWindow(StatusCode::kInvalidParameter2);
  Status status = CheckFlags(RequestType::kInvalidate, flags);
  if (status.ok()) status = CheckState(RequestType::kInvalidate);
  if (!status.ok()) return status;
  return StatusOf(pair_->Invalidate(request_context, own->window(), flags), "Invalidate");
}

Status NdQueuePair::Flush() {
  return StatusOf(pair_->Flush(), "Flush");
}

void NdQueuePair::Disconnect(Duration timeout, std::function<void(Status)> done) {
  if (state_.exchange(State::kEnded) != State::kConnected) return done({});
  // Held, so that the flush comes before `done`.
  context_->connections->Disconnect(number_, timeout,
                                    [self = shared_from_this(), done = std::move(done)](Status status) {
                                      static_cast<void>(self->Flush());
                                      done(std::move(status));
                                    });
}

void NdQueuePair::Drop() {
  {
    std::lock_guard lock(mutex_);
    on_peer_closed_ = nullptr;
  }
  if (state_.exchange(State::kEnded) != State::kConnected) return;
  context_->connections->Disconnect(number_, Duration::zero(), nullptr);
  static_cast<void>(Flush());
}

void NdQueuePair::OnPeerGone() {
  std::function<void(DisconnectReason, Status)> told;
  {
    std::lock_guard lock(mutex_);
    if (state_ == State::kConnected) told = std::exchange(on_peer_closed_, nullptr);
  }
  if (!told) return;
  if (flush_on_goodbye_) static_cast<void>(Flush());
  // Network Direct does not tell a goodbye from the end of a process.
  told(DisconnectReason::kPeerDisconnected, {});
}

}  // namespace nd::provider::networkdirect
