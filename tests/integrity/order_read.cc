// SPDX-License-Identifier: Apache-2.0
// Rules for Reads: the data they return, and the requests that a read fence delays.
#include "tests/integrity/order.h"

namespace nd::integrity {
namespace {

constexpr std::uint32_t kTarget = 0, kSource = 1, kSink = 2, kCopy = 3;  // Uses of slots.

Stream StreamOf(std::uint64_t round) {
  return {round + 1, 0};
}
std::uint32_t SizeOf(std::uint64_t round) {
  Random random(round);
  return random.OneIn(8) ? random.Below(4097) : random.Below(128);
}
void Judge(Duel& duel, std::uint64_t round, std::span<const std::byte> bytes, const char* where) {
  if (const auto fault = Check(StreamOf(round), 0, bytes)) {
    duel.Fault("round " + std::to_string(round) + " " + where + ": " + *fault);
  }
}

// begin(first, last) before each batch, then play(round, slot) for each of its rounds, then judge(first,
// last) when both sides have done that.
template <typename Begin, typename Play, typename Judgement>
void ForBatches(Duel& duel, std::uint64_t rounds, Begin&& begin, Play&& play, Judgement&& judge) {
  for (std::uint64_t first = 0; first < rounds; first += Duel::kBatch) {
    const std::uint64_t last = std::min(rounds, first + Duel::kBatch);
    duel.set_round(first);
    begin(first, last);
    duel.Meet();
    for (std::uint64_t round = first; round < last; ++round) {
      duel.set_round(round);
      play(round, static_cast<std::uint32_t>(round % Duel::kBatch));
    }
    duel.Meet();
    judge(first, last);
  }
  duel.End();
}
const auto kNothing = [](std::uint64_t, std::uint64_t) {};

// The passive side stores round `round` into its slots of `use`.
auto Store(Duel& duel, std::uint32_t use) {
  return [&duel, use](std::uint64_t first, std::uint64_t last) {
    if (duel.active()) return;
    for (std::uint64_t round = first; round < last; ++round) {
      Fill(StreamOf(round), 0,
           duel.Slot(use, static_cast<std::uint32_t>(round % Duel::kBatch)).first(SizeOf(round)));
    }
  };
}
// Checks that the slots of `use` on that side hold the rounds.
auto Expect(Duel& duel, bool active, std::uint32_t use, const char* where) {
  return [&duel, active, use, where](std::uint64_t first, std::uint64_t last) {
    if (duel.active() != active) return;
    for (std::uint64_t round = first; round < last; ++round) {
      Judge(duel, round,
            duel.Slot(use, static_cast<std::uint32_t>(round % Duel::kBatch)).first(SizeOf(round)), where);
    }
  };
}

// A Read after a Write of the same bytes returns the written bytes.
void ReadAfterWrite(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    if (!duel.active()) return;
    const std::uint32_t size = SizeOf(round);
    Fill(StreamOf(round), 0, duel.Slot(kSource, slot).first(size));
    duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess);
    duel.Read(duel.Local(kSink, slot, size), duel.Remote(kTarget, slot));
  };
  ForBatches(duel, rounds, kNothing, play, Expect(duel, true, kSink, "read back"));
}

// A Read after a message returns bytes that were stored before the message was sent.
void ReadSeesStores(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    if (duel.active()) duel.Read(duel.Local(kSink, slot, SizeOf(round)), duel.Remote(kTarget, slot));
  };
  ForBatches(duel, rounds, Store(duel, kTarget), play, Expect(duel, true, kSink, "read"));
}

// A fenced Write begins when the Reads before it are complete, so it may carry their data.
void FencedWriteCarriesRead(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    if (!duel.active()) return;
    const std::uint32_t size = SizeOf(round);
    duel.Read(duel.Local(kSink, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess);
    duel.Write(duel.Local(kSink, slot, size), duel.Remote(kCopy, slot), kOpReadFence);
  };
  ForBatches(duel, rounds, Store(duel, kTarget), play, Expect(duel, false, kCopy, "copied by the peer"));
}

void FencedSendCarriesRead(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    const std::uint32_t size = SizeOf(round);
    if (duel.active()) {
      duel.Read(duel.Local(kSink, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess);
      duel.Send(duel.Local(kSink, slot, size), kOpReadFence);
    } else {
      const std::span<const std::byte> message = duel.Hear();
      if (message.size() != size) duel.Fault("the message has another size");
      Judge(duel, round, message, "sent back");
    }
  };
  ForBatches(duel, rounds, Store(duel, kTarget), play, kNothing);
}

// A fenced Write does not affect an earlier Read of the same bytes.
void FencedWriteSparesRead(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    if (!duel.active()) return;
    const std::uint32_t size = SizeOf(round);
    Fill(StreamOf(~round), 0, duel.Slot(kSource, slot).first(size));
    duel.Read(duel.Local(kSink, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess);
    duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot), kOpReadFence);
  };
  ForBatches(duel, rounds, Store(duel, kTarget), play, Expect(duel, true, kSink, "read"));
}

// Without the fence the Read may see the later Write: each byte has its old or its new value. Afterwards
// memory holds the Write.
void FreeWriteAfterRead(Duel& duel, std::uint64_t rounds) {
  const auto play = [&](std::uint64_t round, std::uint32_t slot) {
    if (!duel.active()) return;
    const std::uint32_t size = SizeOf(round);
    Fill(StreamOf(~round), 0, duel.Slot(kSource, slot).first(size));
    duel.Read(duel.Local(kSink, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess);
    duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot));
  };
  const auto judge = [&](std::uint64_t first, std::uint64_t last) {
    for (std::uint64_t round = first; round < last; ++round) {
      const auto slot = static_cast<std::uint32_t>(round % Duel::kBatch);
      const std::uint32_t size = SizeOf(round);
      std::byte before[Duel::kSlot], after[Duel::kSlot];
      Fill(StreamOf(round), 0, std::span(before, size));
      Fill(StreamOf(~round), 0, std::span(after, size));
      const std::span<const std::byte> here = duel.Slot(duel.active() ? kSink : kTarget, slot).first(size);
      for (std::uint32_t i = 0; i < size; ++i) {
        const bool good = here[i] == after[i] || (duel.active() && here[i] == before[i]);
        if (!good) {
          duel.Fault("slot " + std::to_string(slot) + " byte " + std::to_string(i) +
                     (duel.active() ? " of the Read is neither old nor new" : " is not what was written"));
        }
      }
    }
  };
  ForBatches(duel, rounds, Store(duel, kTarget), play, judge);
}

}  // namespace

Rule ReadRule(const std::string& name) {
  if (name == "read_after_write") return ReadAfterWrite;
  if (name == "read_sees_stores") return ReadSeesStores;
  if (name == "fenced_write_carries_read") return FencedWriteCarriesRead;
  if (name == "fenced_send_carries_read") return FencedSendCarriesRead;
  if (name == "fenced_write_spares_read") return FencedWriteSparesRead;
  if (name == "free_write_after_read") return FreeWriteAfterRead;
  return nullptr;
}

}  // namespace nd::integrity
