// SPDX-License-Identifier: Apache-2.0
// Rules for messages: a message proves the Writes and Sends before it; and the order of completions.
#include "tests/integrity/order.h"

namespace nd::integrity {
namespace {

constexpr std::uint32_t kTarget = 0, kSource = 1, kSink = 2;  // Uses of slots.

Stream StreamOf(std::uint64_t round) {
  return {round + 1, 0};
}

std::uint32_t SizeOf(std::uint64_t round) {
  Random random(round);
  return random.OneIn(8) ? random.Below(4097) : random.Below(128);
}

void Judge(Duel& duel, std::uint64_t round, std::span<const std::byte> bytes) {
  if (const auto fault = Check(StreamOf(round), 0, bytes)) duel.Fault(*fault);
}

// Calls play(round, slot) for all rounds, and meet() after each batch.
template <typename Play, typename Meet>
void ForBatches(Duel& duel, std::uint64_t rounds, Play&& play, Meet&& meet) {
  for (std::uint64_t round = 0; round < rounds; ++round) {
    duel.set_round(round);
    const auto slot = static_cast<std::uint32_t>(round % Duel::kBatch);
    play(round, slot);
    if (slot + 1 == Duel::kBatch) meet();
  }
  duel.End();
}
template <typename Play>
void ForBatches(Duel& duel, std::uint64_t rounds, Play&& play) {
  ForBatches(duel, rounds, play, [&] { duel.Meet(); });
}

// Bytes written before a Send are in memory when the receive of the Send completes.
void WriteBeforeSend(Duel& duel, std::uint64_t rounds) {
  ForBatches(duel, rounds, [&](std::uint64_t round, std::uint32_t slot) {
    const std::uint32_t size = SizeOf(round);
    if (duel.active()) {
      Fill(StreamOf(round), 0, duel.Slot(kSource, slot).first(size));
      duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot));
      duel.Tell(round);
    } else {
      if (duel.HearValue() != round) duel.Fault("a message out of order");
      Judge(duel, round, duel.Slot(kTarget, slot).first(size));
    }
  });
}

// Of several Writes to the same bytes the last one remains.
void LastWriteWins(Duel& duel, std::uint64_t rounds) {
  ForBatches(duel, rounds, [&](std::uint64_t round, std::uint32_t slot) {
    constexpr std::uint32_t kWrites = 3;
    constexpr std::uint32_t kPart = Duel::kSlot / kWrites;
    const std::uint32_t size = SizeOf(round) % kPart;
    if (duel.active()) {
      for (std::uint32_t i = 0; i < kWrites; ++i) {
        Fill(StreamOf(round * kWrites + i), 0, duel.Slot(kSource, slot).subspan(i * kPart, size));
        Sge sge = duel.Local(kSource, slot, size);
        sge.address = static_cast<std::byte*>(sge.address) + i * kPart;
        duel.Write(sge, duel.Remote(kTarget, slot), i + 1 < kWrites ? std::uint32_t{kOpSilentSuccess} : 0u);
      }
      duel.Tell(round);
    } else {
      if (duel.HearValue() != round) duel.Fault("a message out of order");
      Judge(duel, round * kWrites + kWrites - 1, duel.Slot(kTarget, slot).first(size));
    }
  });
}

// Messages arrive complete, in the order of their Sends and of the receives.
void SendsInOrder(Duel& duel, std::uint64_t rounds) {
  ForBatches(duel, rounds, [&](std::uint64_t round, std::uint32_t slot) {
    const std::uint32_t size = SizeOf(round);
    if (duel.active()) {
      Fill(StreamOf(round), 0, duel.Slot(kSource, slot).first(size));
      duel.Send(duel.Local(kSource, slot, size),
                size <= 256 && round % 3 == 0 ? std::uint32_t{kOpInline} : 0u);
    } else {
      const std::span<const std::byte> message = duel.Hear();
      if (message.size() != size) {
        duel.Fault("a message of " + std::to_string(message.size()) + " bytes, " + std::to_string(size) +
                   " were sent");
      }
      Judge(duel, round, message);
    }
  });
}

// Requests complete in the order of posting. Silent requests have no completion and delay no other.
void CompletionsInOrder(Duel& duel, std::uint64_t rounds) {
  Random random(rounds);
  MemoryWindow window = Must(duel.adapter().CreateMemoryWindow(), "CreateMemoryWindow");
  bool bound = false;
  ForBatches(duel, rounds, [&](std::uint64_t round, std::uint32_t slot) {
    if (!duel.active()) {
      if (round % 4 == 1) duel.Hear();
      return;
    }
    const std::uint32_t silent = random.OneIn(2) ? std::uint32_t{kOpSilentSuccess} : 0u;
    switch (round % 4) {
      case 0:
        duel.Write(duel.Local(kSource, slot, SizeOf(round)), duel.Remote(kTarget, slot), silent);
        break;
      case 1:
        duel.Send(duel.Local(kSource, slot, 8), silent);
        break;
      case 2:
        duel.Read(duel.Local(kSink, slot, SizeOf(round)), duel.Remote(kTarget, slot), silent);
        break;
      default:
        if (bound) {
          duel.Invalidate(window);
        } else {
          duel.Bind(duel.memory().region(), window, duel.Slot(3, 0).data(), Duel::kSlot);
        }
        bound = !bound;
        break;
    }
  });
}

}  // namespace

Rule WriteRule(const std::string& name) {
  if (name == "write_before_send") return WriteBeforeSend;
  if (name == "last_write_wins") return LastWriteWins;
  if (name == "sends_in_order") return SendsInOrder;
  if (name == "completions_in_order") return CompletionsInOrder;
  return nullptr;
}

}  // namespace nd::integrity
