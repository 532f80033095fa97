// SPDX-License-Identifier: Apache-2.0
// One-sided operations. The target owns two areas and grants them alternately. The initiator fills or reads a
// round of pieces in one area while the target checks or prepares the other.
#include "tests/integrity/flow.h"

namespace nd::integrity {
namespace {

constexpr std::uint64_t kAreas = 2;

// The rounds of a stream, drawn when needed.
class Rounds {
 public:
  explicit Rounds(const Plan& plan) : plan_(plan) {}
  // Returns false when the stream has no such round.
  bool Has(std::uint64_t number) {
    while (rounds_.size() <= number && end_ != plan_.bytes) {
      rounds_.push_back(DrawRound(plan_.stream.seed + plan_.stream.number, rounds_.size(), end_,
                                  plan_.bytes - end_, plan_.most));
      end_ = rounds_.back().end;
    }
    return number < rounds_.size();
  }
  Round& at(std::uint64_t number) { return rounds_[number]; }

 private:
  Plan plan_;
  std::deque<Round> rounds_;
  std::uint64_t end_ = 0;
};

class AreaTarget : public Flow {
 public:
  AreaTarget(const Side& side, const Plan& plan)
      : Flow(side, plan, ReceiveSizeOf(plan, false)),
        rounds_(plan),
        memory_(side.adapter, kAreas * AreaSize(plan.most), plan.heap) {
    for (auto& window : windows_) window = Must(side.adapter.CreateMemoryWindow(), "CreateMemoryWindow");
  }
  void Start() override {
    for (std::uint64_t number = 0; number < kAreas; ++number) Grant(number);
  }
  bool done() const override { return bytes_ == plan_.bytes && outstanding() == 0; }

 private:
  std::span<std::byte> Area(std::uint64_t number) const {
    return memory_.At(number % kAreas * AreaSize(plan_.most), AreaSize(plan_.most));
  }
  void Grant(std::uint64_t number) {
    if (!rounds_.Has(number)) return;
    const Round& round = rounds_.at(number);
    const std::span<std::byte> area = Area(number);
    PaintGaps(round, area);
    if (plan_.kind == "read") {
      for (const Piece& piece : round.pieces) {
        Fill(plan_.stream, piece.offset, area.subspan(piece.place, piece.size));
      }
    }
    Control control{number, reinterpret_cast<std::uint64_t>(area.data()), memory_.token()};
    if (plan_.kind == "send_invalidate") {
      MemoryWindow& window = windows_[number % kAreas];
      Must(link_.pair().BindWindow(Posted(RequestType::kBind, What::kBind, number), memory_.region(), window,
                                   area.data(), area.size(), kOpAllowRead | kOpAllowWrite),
           "BindWindow");
      control.token = window.remote_token();
    }
    SendControl(control);
  }
  void OnReceive(std::uint32_t slot, std::uint32_t size) override {
    const Control control = ReadControl(slot, size);
    if (control.round != next_) Fault("round " + std::to_string(control.round) + " out of turn");
    ++next_;
    const Round& round = rounds_.at(control.round);
    if (auto fault = CheckRound(round, plan_.stream, Area(control.round))) {
      Fault("round " + std::to_string(control.round) + ": " + *fault);
    }
    bytes_ = round.end;
    rounds_.at(control.round).pieces = {};
    Repost(slot);
    Grant(control.round + kAreas);
  }
  void OnDone(What, std::uint64_t, const Completion&) override {}

  Rounds rounds_;
  Memory memory_;
  MemoryWindow windows_[kAreas];
  std::uint64_t next_ = 0;
};

class AreaInitiator : public Flow {
 public:
  AreaInitiator(const Side& side, const Plan& plan)
      : Flow(side, plan, ReceiveSizeOf(plan, true)),
        shapes_(plan.stream.seed ^ 0x5EED),
        rounds_(plan),
        stride_(AreaSize(plan.most) + kMostPieces * Scatter::kOverhead),
        memory_(side.adapter, kAreas * stride_, plan.heap) {}
  void Start() override {}
  bool done() const override { return bytes_ == plan_.bytes && outstanding() == 0; }

 private:
  bool reads() const { return plan_.kind == "read"; }

  void OnReceive(std::uint32_t slot, std::uint32_t size) override {
    const Control grant = ReadControl(slot, size);
    Repost(slot);
    if (grant.round != granted_ || !rounds_.Has(grant.round)) Fault("a grant out of turn");
    ++granted_;
    const Round& round = rounds_.at(grant.round);
    auto& scatters = scatters_[grant.round % kAreas];
    scatters.clear();
    std::size_t at = grant.round % kAreas * stride_;
    for (const Piece& piece : round.pieces) {
      scatters.emplace_back(shapes_, memory_, at, piece.size, plan_.sge);
      at += piece.size + Scatter::kOverhead;
    }
    left_[grant.round % kAreas] = round.pieces.size();
    // The pieces do not overlap, so any order is correct.
    const std::size_t count = round.pieces.size(), first = shapes_.Below(static_cast<std::uint32_t>(count));
    for (std::size_t i = 0; i < count; ++i) Post(grant, (first + i) % count);
    if (plan_.kind == "write_send") SendControl({grant.round});
    if (plan_.kind == "send_invalidate") SendControl({grant.round}, grant.token);
    if (plan_.kind == "write_send" || plan_.kind == "send_invalidate") bytes_ = round.end;
  }
  void Post(const Control& grant, std::size_t index) {
    const Piece& piece = rounds_.at(grant.round).pieces[index];
    const Scatter& scatter = scatters_[grant.round % kAreas][index];
    const std::uint64_t to = grant.address + piece.place;
    if (reads()) {
      scatter.PaintAll();
      Must(link_.pair().Read(Posted(RequestType::kRead, What::kData, grant.round), scatter.sges(), to,
                             grant.token),
           "Read");
      return;
    }
    scatter.Fill(plan_.stream, piece.offset);
    std::uint32_t flags = 0;
    if (piece.size <= 256 && shapes_.OneIn(2)) flags |= kOpInline;
    Must(link_.pair().Write(Posted(RequestType::kWrite, What::kData, grant.round), scatter.sges(), to,
                            grant.token, flags),
         "Write");
    if ((flags & kOpInline) != 0) scatter.PaintAll();
  }
  void OnDone(What what, std::uint64_t number, const Completion&) override {
    if (what != What::kData || --left_[number % kAreas] != 0) return;
    Round& round = rounds_.at(number);
    if (reads()) {
      for (std::size_t i = 0; i < round.pieces.size(); ++i) {
        const Piece& piece = round.pieces[i];
        const auto fault = scatters_[number % kAreas][i].Check(plan_.stream, piece.offset, piece.size);
        if (fault) Fault("round " + std::to_string(number) + ": " + *fault);
      }
    }
    if (reads() || plan_.kind == "write") {
      bytes_ = round.end;
      SendControl({number});
    }
    round.pieces = {};
  }

  Random shapes_;
  Rounds rounds_;
  std::size_t stride_;
  Memory memory_;
  std::vector<Scatter> scatters_[kAreas];
  std::size_t left_[kAreas] = {};
  std::uint64_t granted_ = 0;
};

}  // namespace

std::unique_ptr<Flow> MakeAreaFlow(const Side& side, const Plan& plan, bool initiator) {
  if (initiator) return std::make_unique<AreaInitiator>(side, plan);
  return std::make_unique<AreaTarget>(side, plan);
}

}  // namespace nd::integrity
