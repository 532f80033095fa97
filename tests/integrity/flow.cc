// SPDX-License-Identifier: Apache-2.0
// Checks every completion: status, type, order, number.
#include "tests/integrity/flow.h"

#include <cstring>

namespace nd::integrity {
namespace {

constexpr std::size_t kControlSlots = 64, kControlStride = 64;
constexpr std::uint32_t kMostControls = 16;

}  // namespace

ReceivePool::ReceivePool(Adapter& adapter, std::uint64_t seed, std::uint32_t slots, std::uint32_t size,
                         std::uint32_t sge, bool heap)
    : random_(seed),
      size_(size),
      sge_(sge),
      stride_(size + Scatter::kOverhead),
      memory_(adapter, slots * stride_, heap),
      scatters_(slots) {}

void ReceivePool::Post(std::uint32_t slot, std::uint32_t size, QueuePair* pair, SharedReceiveQueue* srq) {
  Scatter& scatter = scatters_[slot];
  if (srq == nullptr || scatter.sges().empty()) {
    scatter = Scatter(random_, memory_, slot * stride_, size, sge_);
    scatter.PaintAll();
  }
  void* context = reinterpret_cast<void*>(std::uintptr_t{slot} + 1);
  Must(srq != nullptr ? srq->Receive(context, scatter.sges()) : pair->Receive(context, scatter.sges()),
       "Receive");
}

std::uint32_t ReceivePool::SlotOf(const Completion& completion) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(completion.request_context) - 1);
}

Flow::Flow(Side side, Plan plan, std::uint32_t receive_size)
    : side_(side),
      plan_(std::move(plan)),
      link_(side.adapter, side.completions,
            {.receive_depth = plan_.receives(), .srq = side.srq, .context = this}),
      control_(side.adapter, kControlSlots * kControlStride, false) {
  if (side.srq == nullptr) {
    own_receives_ = std::make_unique<ReceivePool>(side.adapter, plan_.stream.seed + plan_.stream.number,
                                                  plan_.receives(), receive_size, plan_.sge, plan_.heap);
  }
}

void Flow::PostReceives() {
  if (side_.srq != nullptr) return;  // The creator of the shared queue has posted them.
  for (std::uint32_t slot = 0; slot < plan_.receives(); ++slot) Repost(slot);
}

void Flow::Repost(std::uint32_t slot) {
  if (side_.srq == nullptr) {
    receive_order_.push_back(slot);
    ++receives_out_;
  }
  receives().Post(slot, side_.srq == nullptr ? NextReceiveSize() : receives().size(), &link_.pair(),
                  side_.srq);
}

void* Flow::Posted(RequestType type, What what, std::uint64_t number) {
  posted_.push_back({++sequence_, type, what, number});
  return reinterpret_cast<void*>(sequence_);
}

void Flow::SendControl(const Control& control, std::uint32_t invalidate) {
  const std::size_t at = (controls_ % kControlSlots) * kControlStride;
  std::memcpy(control_.data() + at, &control, sizeof(control));
  const Sge sge = control_.Slice(at, sizeof(control));
  const std::uint32_t flags = controls_ % 2 == 0 ? 0u : std::uint32_t{kOpInline};
  ++controls_;
  void* context = Posted(RequestType::kSend, What::kControl, control.round);
  Must(invalidate != 0 ? link_.pair().SendAndInvalidate(context, {&sge, 1}, invalidate, flags)
                       : link_.pair().Send(context, {&sge, 1}, flags),
       "Send");
  if (posted_.size() > kMostPieces * 4 + kMostControls) Fault("more requests than it should have posted");
}

Flow::Control Flow::ReadControl(std::uint32_t slot, std::uint32_t size) const {
  Control control;
  if (size != sizeof(control)) Fault("a control message of " + std::to_string(size) + " bytes");
  std::byte bytes[sizeof(control)];
  std::size_t done = 0;
  for (const Sge& sge : receives().scatter(slot).sges()) {
    const std::size_t n = std::min<std::size_t>(sge.length, sizeof(bytes) - done);
    if (n != 0) std::memcpy(bytes + done, sge.address, n);
    done += n;
  }
  std::memcpy(&control, bytes, sizeof(control));
  return control;
}

void Flow::On(const Completion& completion) {
  if (completion.status != StatusCode::kSuccess) {
    Fault("request type " + std::to_string(static_cast<int>(completion.type)) + " completed " +
          std::string(Name(completion.status)));
  }
  if (completion.type == RequestType::kReceive) {
    const std::uint32_t slot = ReceivePool::SlotOf(completion);
    if (slot >= receives().slots()) Fault("a receive that was never posted completed");
    if (side_.srq == nullptr) {
      if (receive_order_.empty() || receive_order_.front() != slot) Fault("receives completed out of order");
      receive_order_.pop_front();
      --receives_out_;
    }
    OnReceive(slot, completion.bytes_transferred);
    return;
  }
  const auto sequence = reinterpret_cast<std::uintptr_t>(completion.request_context);
  if (posted_.empty()) Fault("a completion without a request");
  const Request front = posted_.front();
  if (front.sequence != sequence || front.type != completion.type) {
    Fault("completion of request " + std::to_string(sequence) + ", but " + std::to_string(front.sequence) +
          " is the oldest");
  }
  posted_.pop_front();
  OnDone(front.what, front.number, completion);
}

void Flow::Fault(const std::string& what) const {
  Die("flow " + std::to_string(plan_.stream.number) + " (" + plan_.kind + "): " + what + "; " + Describe());
}

std::string Flow::Describe() const {
  return "after " + std::to_string(bytes_) + " of " + std::to_string(plan_.bytes) + " bytes, " +
         std::to_string(posted_.size()) + " requests and " + std::to_string(receives_out_) +
         " receives outstanding";
}

std::unique_ptr<Flow> MakeFlow(const Side& side, const Plan& plan, bool initiator) {
  if (plan.kind == "send" || plan.kind == "inline") return MakeSendFlow(side, plan, initiator);
  return MakeAreaFlow(side, plan, initiator);
}

std::uint32_t ReceiveSizeOf(const Plan& plan, bool initiator) {
  const bool messages = plan.kind == "send" || plan.kind == "inline";
  return messages && !initiator ? plan.most + 128 : 256;
}

}  // namespace nd::integrity
