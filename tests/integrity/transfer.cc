// SPDX-License-Identifier: Apache-2.0
// The program "transfer": `pairs` connections on one completion queue, each with a stream. Every second one
// has its initiator on the passive side.
#include <chrono>
#include <thread>

#include "tests/integrity/flow.h"

namespace nd::integrity {
namespace {

// Runs until every flow of this side is done, then until no request is left to be canceled.
void Drive(Completions& completions, std::vector<std::unique_ptr<Flow>>& flows) {
  const auto all_done = [&] {
    for (const auto& flow : flows) {
      if (!flow->done()) return false;
    }
    return true;
  };
  while (!all_done()) {
    const std::span<const Completion> batch = completions.Next();
    if (batch.empty()) {
      std::string stuck = "nothing completes any more";
      for (const auto& flow : flows) stuck += "; " + flow->Describe();
      Die(stuck);
    }
    for (const Completion& completion : batch) {
      auto* flow = static_cast<Flow*>(completion.queue_pair_context);
      bool ours = false;
      for (const auto& candidate : flows) ours |= candidate.get() == flow;
      if (!ours) Die("a completion of no queue pair of ours");
      flow->On(completion);
    }
  }
}

// Requests that are still posted at the end complete with CANCELED, each exactly once, and no other
// completion comes.
void ExpectCanceled(Completions& completions, std::size_t count) {
  std::size_t canceled = 0;
  while (canceled < count) {
    const std::span<const Completion> batch = completions.Next(std::chrono::seconds(20));
    if (batch.empty()) {
      Die(std::to_string(count) + " receives were posted at the end, " + std::to_string(canceled) +
          " completed");
    }
    for (const Completion& completion : batch) {
      if (completion.status != StatusCode::kCanceled) {
        Die("at the end a request completed " + std::string(Name(completion.status)));
      }
      ++canceled;
    }
  }
  if (canceled != count || !completions.Poll().empty()) Die("more completions at the end than receives");
}

}  // namespace

std::string RunTransfer(const Words& words) {
  const bool active = words.Flag("active");
  const auto pairs = static_cast<std::uint32_t>(words.Number("pairs", 1));
  Plan plan;
  plan.kind = words.Text("kind");
  plan.bytes = words.Number("bytes") / pairs;
  plan.most = static_cast<std::uint32_t>(words.Number("most"));
  plan.sge = static_cast<std::uint32_t>(words.Number("sge", 16));
  plan.heap = words.Flag("heap");
  plan.stream.seed = words.Number("seed", 1);

  Adapter adapter = OpenFor(words);
  Completions completions(adapter, 8192, WaitingOf(words.Text("waiting")));
  SharedReceiveQueue srq;
  std::unique_ptr<ReceivePool> shared;
  Side side{adapter, completions};
  const std::uint32_t receives = plan.receives() * pairs;
  if (words.Flag("srq")) {
    srq = Must(adapter.CreateSharedReceiveQueue(receives, 16), "CreateSharedReceiveQueue");
    std::uint32_t size = 0;
    for (const bool initiator : {false, true}) {
      if (pairs > 1 || initiator == active) size = std::max(size, ReceiveSizeOf(plan, initiator));
    }
    shared = std::make_unique<ReceivePool>(adapter, plan.stream.seed, receives, size, plan.sge, plan.heap);
    side.srq = &srq;
    side.shared_receives = shared.get();
    for (std::uint32_t slot = 0; slot < receives; ++slot) shared->Post(slot, size, nullptr, &srq);
  }
  Listener listener;
  if (!active) listener = ListenAt(adapter, words.At("to"));
  std::vector<std::unique_ptr<Flow>> flows;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    plan.stream.number = static_cast<std::uint16_t>(i);
    flows.push_back(MakeFlow(side, plan, active == (i % 2 == 0)));
    flows.back()->PostReceives();
    if (active) {
      flows.back()->link().Connect(words.At("from"), words.At("to"));
    } else {
      flows.back()->link().Accept(listener);
    }
  }
  const auto begin = std::chrono::steady_clock::now();
  for (auto& flow : flows) flow->Start();
  Drive(completions, flows);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;

  std::uint64_t bytes = 0;
  std::size_t left = 0;
  for (auto& flow : flows) {
    bytes += flow->bytes();
    left += flow->receives_out();
    if (active) {
      flow->link().Disconnect();
    } else {
      flow->link().AwaitGoodbye();
    }
  }
  ExpectCanceled(completions, left);
  for (auto& flow : flows) flow->link().Close();
  return "ok bytes=" + std::to_string(bytes) + " seconds=" + std::to_string(took.count());
}

}  // namespace nd::integrity
