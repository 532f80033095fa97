// SPDX-License-Identifier: Apache-2.0
// ndctl testing: for test scripts only, against a broker that was started with --test-clock. Not in --help.
#include <memory>

#include "cli/commands.h"
#include "cli/noun.h"

namespace nd::cli {
namespace {

Failure SkipTime(Context& context, std::uint64_t milliseconds) {
  ndbroker::v1::SkipTimeRequest request;
  request.set_milliseconds(milliseconds);
  ndbroker::v1::Outcome outcome;
  if (Failure failure = context.admin().Call(&AdminClient::Stub::SkipTime, request, &outcome)) return failure;
  return context.Done(outcome, "cannot skip time", "skipped " + std::to_string(milliseconds) + " ms");
}

}  // namespace

void AddTesting(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("testing", "")->group("");
  app->fallthrough();
  app->require_subcommand(1);
  CLI::App* skip = AddVerb(*app, "skip-time", "Jump the broker's clock ahead");
  const auto milliseconds = std::make_shared<std::uint64_t>(0);
  skip->add_option("MILLISECONDS", *milliseconds)->required();
  skip->callback([&context, milliseconds] {
    context.run = [&context, milliseconds] { return SkipTime(context, *milliseconds); };
  });
}

}  // namespace nd::cli
