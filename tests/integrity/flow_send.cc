// SPDX-License-Identifier: Apache-2.0
// Messages: each Send has a receive. The sink answers each message with an empty one, which permits one more
// Send. So no Send waits for a receive longer than the provider allows.
#include "tests/integrity/flow.h"

namespace nd::integrity {
namespace {

class SendSource : public Flow {
 public:
  SendSource(const Side& side, const Plan& plan)
      : Flow(side, plan, ReceiveSizeOf(plan, true)),
        shapes_(plan.stream.seed ^ 0x5EED),
        sizes_(plan.stream.seed + plan.stream.number),
        stride_(plan.most + Scatter::kOverhead),
        memory_(side.adapter, plan.in_flight() * stride_, plan.heap),
        credits_(plan.in_flight()) {
    for (std::uint32_t slot = 0; slot < plan.in_flight(); ++slot) free_.push_back(slot);
  }
  void Start() override { Pump(); }
  bool done() const override {
    return bytes_ == plan_.bytes && credits_ == plan_.in_flight() && outstanding() == 0;
  }

 private:
  void Pump() {
    while (bytes_ != plan_.bytes && credits_ != 0 && !free_.empty()) {
      const auto size = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(DrawSize(sizes_, plan_.most), plan_.bytes - bytes_));
      const std::uint32_t slot = free_.front();
      free_.pop_front();
      --credits_;
      const Scatter scatter(shapes_, memory_, slot * stride_, size, plan_.sge);
      scatter.Fill(plan_.stream, bytes_);
      bytes_ += size;
      const bool in_line = plan_.kind == "inline";
      std::uint32_t flags = in_line ? std::uint32_t{kOpInline} : 0u;
      if (shapes_.OneIn(4)) flags |= kOpSendAndSolicit;
      void* context = Posted(RequestType::kSend, What::kData, slot);
      Must(link_.pair().Send(context, scatter.sges(), flags), "Send");
      // Inline bytes were copied at the post, so the buffer may change now.
      if (in_line) scatter.PaintAll();
    }
  }
  void OnReceive(std::uint32_t slot, std::uint32_t size) override {
    if (size != 0) Fault("a credit of " + std::to_string(size) + " bytes");
    if (++credits_ > plan_.in_flight()) Fault("more credits than messages");
    Repost(slot);
    Pump();
  }
  void OnDone(What, std::uint64_t number, const Completion&) override {
    free_.push_back(static_cast<std::uint32_t>(number));
    Pump();
  }

  Random shapes_, sizes_;
  std::size_t stride_;
  Memory memory_;
  std::deque<std::uint32_t> free_;
  std::uint32_t credits_;
};

class SendSink : public Flow {
 public:
  SendSink(const Side& side, const Plan& plan)
      : Flow(side, plan, ReceiveSizeOf(plan, false)),
        sizes_(plan.stream.seed + plan.stream.number),
        expected_(plan.stream.seed + plan.stream.number),
        extra_(plan.stream.seed) {}
  void Start() override {}
  bool done() const override { return bytes_ == plan_.bytes && outstanding() == 0; }

 private:
  static std::uint32_t Draw(Random& sizes, const Plan& plan, std::uint64_t* offset) {
    const auto size =
        static_cast<std::uint32_t>(std::min<std::uint64_t>(DrawSize(sizes, plan.most), plan.bytes - *offset));
    *offset += size;
    return size;
  }
  // The size of the message that will arrive in this receive, or slightly more.
  std::uint32_t NextReceiveSize() override {
    const std::uint32_t size = Draw(expected_, plan_, &expected_offset_);
    return extra_.OneIn(2) ? size : size + extra_.Below(100);
  }
  void OnReceive(std::uint32_t slot, std::uint32_t size) override {
    const std::uint64_t offset = bytes_;
    const std::uint32_t expected = Draw(sizes_, plan_, &bytes_);
    if (size != expected) {
      Fault("a message of " + std::to_string(size) + " bytes, sent were " + std::to_string(expected));
    }
    const Scatter& scatter = receives().scatter(slot);
    if (auto fault = scatter.Check(plan_.stream, offset, size)) Fault(*fault);
    if (side_.srq != nullptr) scatter.PaintFront(size);
    Repost(slot);
    Must(link_.pair().Send(Posted(RequestType::kSend, What::kControl, 0), {}, 0), "Send of a credit");
  }
  void OnDone(What, std::uint64_t, const Completion&) override {}

  Random sizes_, expected_, extra_;
  std::uint64_t expected_offset_ = 0;
};

}  // namespace

std::unique_ptr<Flow> MakeSendFlow(const Side& side, const Plan& plan, bool initiator) {
  if (initiator) return std::make_unique<SendSource>(side, plan);
  return std::make_unique<SendSink>(side, plan);
}

}  // namespace nd::integrity
