// SPDX-License-Identifier: Apache-2.0
// Rules for memory windows: a bind or an invalidation is in force for every peer that learns of it by a later
// message.
#include "tests/integrity/order.h"

namespace nd::integrity {
namespace {

constexpr std::uint32_t kTarget = 0, kSource = 1;  // Uses of slots.

Stream StreamOf(std::uint64_t round) {
  return {round + 1, 0};
}

// Bind, then a message with the token: the Write of the peer through the window succeeds.
void BindBeforeSend(Duel& duel, std::uint64_t rounds) {
  MemoryWindow window = Must(duel.adapter().CreateMemoryWindow(), "CreateMemoryWindow");
  for (std::uint64_t round = 0; round < rounds; ++round) {
    duel.set_round(round);
    const auto slot = static_cast<std::uint32_t>(round % Duel::kBatch);
    const auto size = static_cast<std::uint32_t>(1 + round * 37 % 300);
    if (duel.active()) {
      const auto token = static_cast<std::uint32_t>(duel.HearValue());
      Fill(StreamOf(round), 0, duel.Slot(kSource, slot).first(size));
      duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess, token);
      duel.Tell(round);
    } else {
      duel.Bind(duel.memory().region(), window, duel.Slot(kTarget, slot).data(), Duel::kSlot);
      duel.Tell(window.remote_token());
      if (duel.HearValue() != round) duel.Fault("a message out of order");
      if (const auto fault = Check(StreamOf(round), 0, duel.Slot(kTarget, slot).first(size))) {
        duel.Fault(*fault);
      }
      duel.Invalidate(window);
    }
    duel.Finish();
  }
  duel.End();
}

// Writes before a Send with Invalidate succeed. When its receive completes the window is invalid, so its
// region can be deregistered.
void SendWithInvalidate(Duel& duel, std::uint64_t rounds) {
  MemoryWindow window = Must(duel.adapter().CreateMemoryWindow(), "CreateMemoryWindow");
  for (std::uint64_t round = 0; round < rounds; ++round) {
    duel.set_round(round);
    const auto slot = static_cast<std::uint32_t>(round % Duel::kBatch);
    const auto size = static_cast<std::uint32_t>(1 + round * 37 % 300);
    if (duel.active()) {
      const auto token = static_cast<std::uint32_t>(duel.HearValue());
      Fill(StreamOf(round), 0, duel.Slot(kSource, slot).first(size));
      duel.Write(duel.Local(kSource, slot, size), duel.Remote(kTarget, slot), kOpSilentSuccess, token);
      duel.Tell(round, token);
    } else {
      MemoryRegion region = Must(
          duel.adapter().Register(duel.Slot(kTarget, slot).data(), Duel::kSlot, kEveryRight), "Register");
      duel.Bind(region, window, duel.Slot(kTarget, slot).data(), Duel::kSlot);
      duel.Tell(window.remote_token());
      if (duel.HearValue() != round) duel.Fault("a message out of order");
      Must(region.Deregister(), "Deregister behind the receive of a Send with Invalidate");
      if (const auto fault = Check(StreamOf(round), 0, duel.Slot(kTarget, slot).first(size))) {
        duel.Fault(*fault);
      }
    }
    duel.Finish();
  }
  duel.End();
}

// Invalidate, then a message: a later Write of the receiver fails and ends the connection. `by_peer`: the
// writer itself invalidated the window.
void ShutOut(Duel& duel, bool by_peer) {
  constexpr std::size_t kSize = 64;
  if (!duel.active()) {
    MemoryWindow window = Must(duel.adapter().CreateMemoryWindow(), "CreateMemoryWindow");
    const std::span<std::byte> target = duel.Slot(kTarget, 0).first(kSize);
    Fill(StreamOf(0), 0, target);
    duel.Bind(duel.memory().region(), window, target.data(), kSize);
    duel.Tell(window.remote_token());
    if (!by_peer) {
      duel.Invalidate(window);
      duel.Tell(1);
    }
    Request request;
    Must(Await(duel.link().connector().NotifyDisconnect(&request), request), "NotifyDisconnect");
    if (const auto fault = Check(StreamOf(0), 0, target)) duel.Fault("written all the same: " + *fault);
  } else {
    const auto token = static_cast<std::uint32_t>(duel.HearValue());
    if (by_peer) {
      duel.Tell(1, token);
    } else {
      (void)duel.HearValue();
    }
    Fill(StreamOf(9), 0, duel.Slot(kSource, 0));
    duel.Write(duel.Local(kSource, 0, kSize), duel.Remote(kTarget, 0), 0, token);
    if (by_peer) {
      if (const Completion sent = duel.Oldest(); sent.status != StatusCode::kSuccess) {
        duel.Fault("the Send with Invalidate completed " + std::string(Name(sent.status)));
      }
    }
    if (const Completion written = duel.Oldest(); written.status != StatusCode::kAccessViolation) {
      duel.Fault("a Write through a window that is shut completed " + std::string(Name(written.status)));
    }
  }
  duel.link().Close();
}
void InvalidateBeforeSend(Duel& duel, std::uint64_t) {
  ShutOut(duel, false);
}
void InvalidatedByPeer(Duel& duel, std::uint64_t) {
  ShutOut(duel, true);
}

}  // namespace

Rule WindowRule(const std::string& name) {
  if (name == "bind_before_send") return BindBeforeSend;
  if (name == "send_with_invalidate") return SendWithInvalidate;
  if (name == "invalidate_before_send") return InvalidateBeforeSend;
  if (name == "invalidated_by_peer") return InvalidatedByPeer;
  return nullptr;
}

}  // namespace nd::integrity
