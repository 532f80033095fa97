// SPDX-License-Identifier: Apache-2.0
// Verbs for operations under way and for the actor as a whole. The records kept here prove for every
// operation of every case that PENDING is followed by exactly one completion and any other status by none.
#include <chrono>
#include <thread>

#include "tests/testing/actor_state.h"
#include "tests/testing/process.h"
#include "tests/testing/programs.h"

namespace nd::testing {

void ActorState::DrainRings() {
  for (auto& [id, adapter] : adapters_) {
    while (Request* done = adapter->PollRequest()) {
      auto* op = static_cast<Op*>(done->context);
      if (op == nullptr) continue;
      op->told = done->GetResult(false);
      ++op->completions;
      for (const auto& [op_id, candidate] : ops_) {
        if (candidate.get() == op) completion_log_.push_back(op_id);
      }
    }
  }
}

bool ActorState::AnswerOp(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kOpStatus: {
      const std::shared_ptr<Op> op = ops_.at(in.U32());
      const auto wait = std::chrono::milliseconds(in.U32());
      Status status = op->inline_status;
      if (status.pending()) {
        Eventually(
            [&] {
              DrainRings();
              status = op->request.GetResult(false);
              return !status.pending() && op->completions > 0;
            },
            wait);
      }
      out.Put(status);
      return true;
    }
    case Verb::kOpAccount: {
      DrainRings();
      const std::shared_ptr<Op> op = ops_.at(in.U32());
      out.Put(op->inline_status).Put(op->completions.load());
      const std::lock_guard lock(op->mutex);
      out.Put(op->told);
      return true;
    }
    case Verb::kCompletionLog:
      DrainRings();
      out.Put(completion_log_);
      return true;
    default:
      return false;
  }
}

void ActorState::Reset(Writer& out) {
  std::vector<std::string> faults;
  for (auto& [id, program] : programs_) {
    if (!*program.done) faults.push_back("a program was still running at the end");
    program.thread.join();
  }
  programs_.clear();
  const auto close_all = [&](auto& table, bool wait) {
    std::vector<std::shared_ptr<Op>> closing;
    for (auto& [id, object] : table) {
      const auto op = std::make_shared<Op>();
      op->request.context = op.get();
      CloseAny(id, false, &op->request, &op->inline_status);
      ops_[++last_id_] = op;
    }
    if (wait) DrainRings();
  };
  close_all(connectors_, true);
  close_all(listeners_, true);
  close_all(endpoints_, true);
  close_all(qps_, true);
  close_all(srqs_, true);
  close_all(cqs_, true);
  const auto settled = [&] {
    DrainRings();
    for (const auto& [id, op] : ops_) {
      if (op->inline_status.pending() && op->completions == 0) return false;
    }
    return true;
  };
  Eventually(settled, std::chrono::seconds(8));
  for (const auto& [id, op] : ops_) {
    const int expected = op->inline_status.pending() ? 1 : 0;
    if (op->completions == expected) continue;
    faults.push_back("operation " + std::to_string(id) + " answered " + op->inline_status.ToString() +
                     " inline and completed " + std::to_string(op->completions) + " times");
  }
  connectors_.clear();
  listeners_.clear();
  endpoints_.clear();
  qps_.clear();
  srqs_.clear();
  cqs_.clear();
  windows_.clear();
  memories_.clear();
  ops_.clear();
  completion_log_.clear();
  while (adapters_.size() > 1) adapters_.erase(std::prev(adapters_.end()));
  {
    const std::lock_guard lock(*session_mutex_);
    session_events_->clear();
  }
  out.Put(faults);
}

bool ActorState::AnswerWhole(Verb verb, Reader& in, Writer& out) {
  switch (verb) {
    case Verb::kReset:
      Reset(out);
      return true;
    case Verb::kFork: {
      const Id id = in.U32();
      Fork(Find(adapters_, id), in.Text(), out);
      return true;
    }
    case Verb::kProgram: {
      const std::string name = in.Text();
      const std::string arguments = in.Text();
      out.Put(RunProgram(name, arguments));
      return true;
    }
    case Verb::kProgramStart: {
      const std::string name = in.Text();
      const std::string arguments = in.Text();
      Running& running = programs_[++last_id_];
      running.thread = std::thread([name, arguments, result = running.result, done = running.done] {
        *result = RunProgram(name, arguments);
        *done = true;
      });
      out.Put(last_id_);
      return true;
    }
    case Verb::kProgramJoin: {
      const Id id = in.U32();
      Running& running = programs_.at(id);
      const bool done = Eventually([&] { return running.done->load(); }, std::chrono::milliseconds(in.U32()));
      if (!done) return out.Put(false).Put(""), true;
      running.thread.join();
      out.Put(true).Put(*running.result);
      programs_.erase(id);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace nd::testing
