// SPDX-License-Identifier: Apache-2.0
// ndctl testing: for test scripts only, against a broker that was started with --test-clock. Not in --help.
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {
namespace {

Failure SkipTime(Context& context, std::uint64_t milliseconds) {
  ndbroker::v1::SkipTimeRequest request;
  request.set_milliseconds(milliseconds);
  ndbroker::v1::Outcome outcome;
  if (Failure failure = context.admin().SkipTime(request, &outcome)) return failure;
  return context.Done(outcome, "cannot skip time", "skipped " + std::to_string(milliseconds) + " ms");
}

}  // namespace

void AddTesting(Command root, Context& context) {
  Command app = root.Add("testing", "").Hide();
  app.RequireCommand();
  Command skip = app.Add("skip-time", "Jump the broker's clock ahead");
  const auto milliseconds = std::make_shared<std::uint64_t>(0);
  skip.Add("MILLISECONDS", milliseconds.get(), "How far").Required();
  skip.OnRun(context, [&context, milliseconds] { return SkipTime(context, *milliseconds); });
}

}  // namespace nd::cli
