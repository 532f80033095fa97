// SPDX-License-Identifier: Apache-2.0
// Silent requests have no completion; the completion of a later request proves that they are done.
#include "tests/integrity/duel.h"

#include <cstring>

namespace nd::integrity {
namespace {

constexpr std::size_t kMessages = 64;  // Slots of outgoing values, behind those of receives.

struct Introduction {
  std::uint64_t address;
  std::uint64_t token;
};

}  // namespace

Duel::Duel(const Words& words)
    : active_(words.Flag("active")),
      rule_(words.Text("rule")),
      adapter_(OpenFor(words)),
      completions_(adapter_, 4096, WaitingOf(words.Text("waiting"))),
      memory_(adapter_, 4 * kBatch * kSlot, words.Flag("heap")),
      messages_(adapter_, (kReceives + kMessages) * kSlot, false) {
  link_.emplace(adapter_, completions_, LinkOptions{.receive_depth = kReceives});
  for (std::uint32_t slot = 0; slot < kReceives; ++slot) PostReceive(slot);
  if (active_) {
    link_->Connect(words.At("from"), words.At("to"));
  } else {
    listener_ = ListenAt(adapter_, words.At("to"));
    link_->Accept(listener_);
  }
  const Introduction mine{memory_.address(), memory_.token()};
  const std::size_t at = (kReceives + kMessages - 1) * kSlot;
  std::memcpy(messages_.data() + at, &mine, sizeof(mine));
  // The active side sends first, because the first message completes the Accept of the peer.
  const auto introduce = [&] { Send(messages_.Slice(at, sizeof(mine))); };
  if (active_) introduce();
  Introduction theirs;
  const std::span<const std::byte> heard = Hear();
  if (heard.size() != sizeof(theirs)) Fault("an introduction of " + std::to_string(heard.size()) + " bytes");
  std::memcpy(&theirs, heard.data(), sizeof(theirs));
  if (!active_) introduce();
  peer_address_ = theirs.address;
  peer_token_ = static_cast<std::uint32_t>(theirs.token);
  Finish();
}

void Duel::End() {
  Meet();
  if (active_) {
    link_->Disconnect();
  } else {
    link_->AwaitGoodbye();
  }
  link_->Close();
}

void Duel::PostReceive(std::uint32_t slot) {
  const Sge sge = messages_.Slice(slot * kSlot, kSlot);
  Must(link_->pair().Receive(reinterpret_cast<void*>(std::uintptr_t{slot}), {&sge, 1}), "Receive");
}

void* Duel::Count(std::uint32_t flags) {
  ++posted_;
  if ((flags & kOpSilentSuccess) == 0) expected_.push_back(posted_);
  return reinterpret_cast<void*>(posted_);
}

void Duel::Write(const Sge& from, std::uint64_t to, std::uint32_t flags, std::uint32_t token) {
  void* context = Count(flags);
  Must(link_->pair().Write(context, {&from, 1}, to, token != 0 ? token : peer_token_, flags), "Write");
}
void Duel::Read(const Sge& to, std::uint64_t from, std::uint32_t flags) {
  void* context = Count(flags);
  Must(link_->pair().Read(context, {&to, 1}, from, peer_token_, flags), "Read");
}
void Duel::Send(const Sge& from, std::uint32_t flags) {
  void* context = Count(flags);
  Must(link_->pair().Send(context, {&from, 1}, flags), "Send");
}
void Duel::Tell(std::uint64_t value, std::uint32_t invalidate) {
  const std::size_t at = (kReceives + values_++ % (kMessages - 1)) * kSlot;
  std::memcpy(messages_.data() + at, &value, sizeof(value));
  const Sge sge = messages_.Slice(at, sizeof(value));
  if (invalidate == 0) return Send(sge);
  void* context = Count(0);
  Must(link_->pair().SendAndInvalidate(context, {&sge, 1}, invalidate), "SendAndInvalidate");
}
void Duel::Bind(MemoryRegion& region, MemoryWindow& window, void* address, std::size_t size) {
  void* context = Count(0);
  Must(link_->pair().BindWindow(context, region, window, address, size, kOpAllowRead | kOpAllowWrite),
       "BindWindow");
}
void Duel::Invalidate(MemoryWindow& window) {
  void* context = Count(0);
  Must(link_->pair().Invalidate(context, window), "Invalidate");
}

void Duel::Take() {
  const std::span<const Completion> batch = completions_.Next();
  if (batch.empty()) {
    Fault("nothing completes; " + std::to_string(expected_.size()) + " requests outstanding");
  }
  for (const Completion& completion : batch) {
    (completion.type == RequestType::kReceive ? received_ : initiated_).push_back(completion);
  }
}

Completion Duel::Oldest() {
  while (initiated_.empty()) Take();
  const Completion completion = initiated_.front();
  initiated_.pop_front();
  if (!expected_.empty()) expected_.pop_front();
  return completion;
}

void Duel::Finish() {
  while (!expected_.empty()) {
    const std::uint64_t expected = expected_.front();
    const Completion completion = Oldest();
    if (completion.status != StatusCode::kSuccess) {
      Fault("request " + std::to_string(expected) + " completed " + std::string(Name(completion.status)));
    }
    const auto context = reinterpret_cast<std::uintptr_t>(completion.request_context);
    if (context != expected) {
      Fault("request " + std::to_string(context) + " completed, but " + std::to_string(expected) +
            " is the oldest one that has to");
    }
  }
  if (!initiated_.empty()) Fault("a completion that nobody asked for");
}

std::span<const std::byte> Duel::Hear() {
  if (heard_) PostReceive(*heard_);
  heard_.reset();
  while (received_.empty()) Take();
  const Completion completion = received_.front();
  received_.pop_front();
  if (completion.status != StatusCode::kSuccess) {
    Fault("a receive completed " + std::string(Name(completion.status)));
  }
  const auto slot = static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(completion.request_context));
  if (slot != next_receive_) Fault("receives complete out of order");
  next_receive_ = (next_receive_ + 1) % kReceives;
  heard_ = slot;
  return messages_.At(slot * kSlot, completion.bytes_transferred);
}

std::uint64_t Duel::HearValue() {
  const std::span<const std::byte> message = Hear();
  std::uint64_t value = 0;
  if (message.size() != sizeof(value)) {
    Fault("a message of " + std::to_string(message.size()) + " bytes, 8 expected");
  }
  std::memcpy(&value, message.data(), sizeof(value));
  return value;
}

void Duel::Meet() {
  constexpr std::uint64_t kHere = 0x4D656574;
  Finish();
  Tell(kHere);
  if (const std::uint64_t value = HearValue(); value != kHere) {
    Fault("a message of value " + std::to_string(value) + " where the sides meet");
  }
  Finish();
}

void Duel::Fault(const std::string& what) const {
  Die(rule_ + ", " + (active_ ? "active" : "passive") + " side, round " + std::to_string(round_) + ": " +
      what);
}

}  // namespace nd::integrity
