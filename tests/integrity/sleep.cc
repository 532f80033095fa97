// SPDX-License-Identifier: Apache-2.0
// One side of a connection that does what the test says, a step at a time, and sleeps in between: nothing
// moves its data then but the progress thread.
#include <array>
#include <memory>
#include <optional>
#include <string>

#include "tests/integrity/app.h"
#include "tests/integrity/link.h"

namespace nd::integrity {
namespace {

// Polls check the descriptor of a connection once in 1024 rounds.
constexpr int kPollsWithALook = 4096;
constexpr std::size_t kSlot = 64;

struct Side {
  explicit Side(const Words& words)
      : adapter(OpenFor(words)),
        completions(adapter, 64, Waiting::kPoll),
        memory(adapter, 4096, false),
        link(adapter, completions, {}) {}
  Adapter adapter;
  Completions completions;
  Memory memory;
  Link link;
  std::optional<Listener> listener;
};

std::unique_ptr<Side> side;

// Waits for `count` completions, each with SUCCESS.
std::string Take(std::size_t count) {
  for (std::size_t got = 0; got < count;) {
    const auto batch = side->completions.Next(std::chrono::seconds(10));
    if (batch.empty()) return "the operation does not complete";
    for (const Completion& one : batch) {
      if (one.status != StatusCode::kSuccess) return "it completes with " + std::string(Name(one.status));
    }
    got += batch.size();
  }
  return "ok";
}

}  // namespace

std::string RunSleep(const Words& words) {
  const std::string step = words.Text("step");
  if (step == "open") {
    side = std::make_unique<Side>(words);
    if (words.Flag("active")) return "ok";
    side->listener = ListenAt(side->adapter, words.At("to"));
    for (int i = 0; i < 2; ++i) {
      Must(side->link.pair().Receive(nullptr, std::array{side->memory.Slice(0, kSlot)}), "Receive");
    }
    return "ok";
  }
  if (step == "connect") {
    if (words.Flag("active")) {
      side->link.Connect(words.At("from"), words.At("to"));
    } else {
      side->link.Accept(*side->listener);
    }
    return "ok";
  }
  if (step == "send") {
    Must(side->link.pair().Send(nullptr, std::array{side->memory.Slice(0, kSlot)}), "Send");
    return "ok";
  }
  if (step == "receive") {
    const std::string report = Take(1);
    for (int i = 0; i < kPollsWithALook; ++i) static_cast<void>(side->completions.Poll());
    return report;
  }
  if (step == "take") return Take(2);  // The Sends.
  if (step == "close") {
    side.reset();
    return "ok";
  }
  return "no step called \"" + step + "\"";
}

}  // namespace nd::integrity
