// SPDX-License-Identifier: Apache-2.0
// ndctl drain: lets the connections of this host end before maintenance, without breaking any.
#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "cli/commands.h"
#include "cli/noun.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

Failure SetDrain(Context& context, bool drain, v1::Outcome* outcome) {
  v1::DrainRequest request;
  request.set_drain(drain);
  return context.admin().Drain(request, outcome);
}

std::string Left(const v1::BrokerStatus& status) {
  return std::to_string(status.counters().active_connection()) + " connections and " +
         std::to_string(status.handshakes()) + " handshakes";
}

// Waits until no connection is left. Only an explicit --timeout bounds the wait.
Failure WaitForEmpty(Context& context) {
  const auto start = std::chrono::steady_clock::now();
  auto pause = std::chrono::milliseconds(20);
  while (true) {
    v1::BrokerStatus status;
    if (Failure failure = context.admin().GetStatus(v1::GetStatusRequest(), &status)) {
      context.Progress("");
      return failure;
    }
    if (!status.draining()) {
      context.Progress("");
      return Error{
          Exit::kFailed, "another administrator ended the draining", "ndctl drain begins it again", {}};
    }
    if (status.counters().active_connection() == 0 && status.handshakes() == 0) break;
    context.Progress(Left(status) + " left");
    const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
    if (context.globals.timeout_given && waited.count() >= context.globals.timeout) {
      context.Progress("");
      return Error{Exit::kTimeout,
                   "not empty in time, " + Left(status) + " left; the broker goes on draining",
                   "ndctl connection list shows them; ndctl undrain takes new work again",
                   {}};
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::milliseconds(250));
  }
  context.Progress("");
  return std::nullopt;
}

Failure Drain(Context& context, bool wait, bool dry_run) {
  if (dry_run || context.CanAsk()) {
    v1::BrokerStatus status;
    if (Failure failure = context.admin().GetStatus(v1::GetStatusRequest(), &status)) {
      return failure;
    }
    const std::string what =
        "refuse new sessions, listeners and connections on this host; " + Left(status) + " go on";
    if (dry_run) return context.DryRun(what);
    if (Failure failure = context.Confirm(what)) return failure;
  }
  v1::Outcome outcome;
  if (Failure failure = SetDrain(context, true, &outcome)) return failure;
  if (!wait) return context.Done(outcome, "cannot drain", "draining; ndctl undrain takes new work again");
  if (Failure failure = FailureOf(
          {static_cast<StatusCode>(outcome.status().code()), outcome.status().message()}, "cannot drain")) {
    return failure;
  }
  if (Failure failure = WaitForEmpty(context)) return failure;
  return context.Done(outcome, {}, "drained: nothing is connected and nothing new is taken");
}

Failure Undrain(Context& context) {
  v1::Outcome outcome;
  if (Failure failure = SetDrain(context, false, &outcome)) return failure;
  return context.Done(outcome, "cannot end the draining", "new work is taken again");
}

}  // namespace

void AddDrain(Command root, Context& context) {
  Command drain = root.Add("drain", "Refuse whatever is new and let the rest live, until undrain");
  const auto wait = std::make_shared<bool>(false);
  const auto dry_run = std::make_shared<bool>(false);
  drain.AddFlag("--wait", wait.get(),
                "Return when nothing is connected any more, or after --timeout if given");
  drain.AddFlag("--dry-run", dry_run.get(), "Only say what would be done");
  drain.OnRun(context, [&context, wait, dry_run] { return Drain(context, *wait, *dry_run); });
  Command undrain = root.Add("undrain", "Take new work again");
  undrain.OnRun(context, [&context] { return Undrain(context); });
}

}  // namespace nd::cli
