// SPDX-License-Identifier: Apache-2.0
// Global options: declared here, checked here.
#include "cli/globals.h"

#include <algorithm>
#include <cstdlib>

#include "base/os/self.h"
#include "cli/nearest.h"
#include "cli/quantity.h"

namespace nd::cli {

void AddGlobals(Command app, Context& context) {
  Globals& globals = context.globals;
  app.Add("-o,--output", &globals.output, "table, wide, json, jsonl, yaml, name, csv or custom=COLUMN,...")
      .Environment("NDCTL_OUTPUT");
  app.AddFlag("-q,--quiet", &globals.quiet, "Only the names, as -o name").Environment("NDCTL_QUIET");
  app.Add("--address", &globals.address, "Directory of the broker's sockets (default: found by itself)")
      .Environment("NDCTL_ADDRESS");
  const Option host = app.Add("--host", &globals.remote.host,
                              "Another host's broker, through its ndbroker-gateway: HOST[:PORT]")
                          .Environment("NDCTL_HOST");
  const Option tls =
      app.Add("--tls", &globals.remote.tls, "With --host: directory of ca.pem, NAME.pem and NAME-key.pem")
          .Environment("NDCTL_TLS");
  if (!CanDialRemote()) {
    for (Option option : {host, tls}) option.Hide();
  }
  app.Add("--timeout", &globals.timeout_text, "How long to wait for an answer: 5, 500ms, 2m")
      .Environment("NDCTL_TIMEOUT");
  app.Add("--color", &globals.color, "auto, always or never").Environment("NDCTL_COLOR");
  app.AddFlag("--no-headers", &globals.no_headers, "No line of column names").Environment("NDCTL_NO_HEADERS");
  app.AddFlag("--no-pager", &globals.no_pager, "Never start a pager").Environment("NDCTL_NO_PAGER");
  app.AddFlag("-y,--yes", &globals.yes, "Ask nothing before something is ended").Environment("NDCTL_YES");
}

Failure ApplyGlobals(Command app, Context& context) {
  Globals& globals = context.globals;
  if (globals.quiet && app.Given("--output") && globals.output != "name") {
    const bool environment =
        std::getenv("NDCTL_OUTPUT") != nullptr && globals.output == std::getenv("NDCTL_OUTPUT");
    if (!environment) {
      return Error{Exit::kUsage,
                   "--quiet is -o name, and -o " + globals.output + " is something else",
                   "give one of the two",
                   {}};
    }
  }
  if (globals.quiet) globals.output = "name";
  if (Failure failure = Output::Parse(globals.output, &context.output)) return failure;
  context.output.headers = !globals.no_headers;
  const std::vector<std::string> modes = {"auto", "always", "never"};
  const auto mode = std::find(modes.begin(), modes.end(), globals.color);
  if (mode == modes.end()) {
    return Error{
        Exit::kUsage, "unknown colour mode '" + globals.color + "'", Suggest(globals.color, modes), {}};
  }
  context.output.color =
      UseColor(static_cast<ColorMode>(mode - modes.begin()), os::IsTerminal(os::Stream::kOutput));
  if (Failure failure = ParseQuantity(globals.timeout_text, Unit::kSeconds, &globals.timeout)) {
    failure->message = "--timeout: " + failure->message;
    return failure;
  }
  if (!globals.remote.host.empty() && !globals.address.empty()) {
    return Error{Exit::kUsage, "--host and --address name two different brokers", "give one of the two", {}};
  }
  if (globals.timeout < 1e-3 || globals.timeout > 86400) {
    return Error{Exit::kUsage, "--timeout " + globals.timeout_text + " is not between 1 ms and 24 h", {}, {}};
  }
  globals.timeout_given = app.Given("--timeout");
  return std::nullopt;
}

bool WantsJson(const std::vector<std::string>& arguments) {
  const char* environment = std::getenv("NDCTL_OUTPUT");
  std::string output = environment == nullptr ? "" : environment;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if ((word == "-o" || word == "--output") && i + 1 < arguments.size()) output = arguments[i + 1];
    if (word.starts_with("--output=")) output = word.substr(9);
    if (word.starts_with("-o") && !word.starts_with("--") && word.size() > 2) output = word.substr(2);
  }
  return output == "json" || output == "jsonl";
}

}  // namespace nd::cli
