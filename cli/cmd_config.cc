// SPDX-License-Identifier: Apache-2.0
// ndctl config: the broker's configuration file.
#include "cli/commands.h"
#include "cli/noun.h"

namespace nd::cli {
namespace {

Failure Reload(Context& context) {
  ndbroker::v1::Outcome outcome;
  if (Failure failure =
          context.admin().Call(&AdminClient::Stub::Reload, ndbroker::v1::ReloadRequest(), &outcome)) {
    return failure;
  }
  Failure failure = context.Done(outcome, "the old configuration stays", "configuration read again");
  // INVALID_PARAMETER is a missing object elsewhere; here it is a wrong file.
  if (failure && failure->exit == Exit::kNotFound) failure->exit = Exit::kFailed;
  return failure;
}

}  // namespace

void AddConfig(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("config", "The configuration file: reload");
  app->fallthrough();
  app->require_subcommand(1);
  CLI::App* reload = AddVerb(*app, "reload", "Read policy and limits again; an error changes nothing");
  reload->callback([&context] { context.run = [&context] { return Reload(context); }; });
}

}  // namespace nd::cli
