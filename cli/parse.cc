// SPDX-License-Identifier: Apache-2.0
// CLI11 says that something was not expected; people want to hear which word, and what was meant.
#include "cli/parse.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/nearest.h"
#include "cli/version.h"

namespace nd::cli {
namespace {

std::string Path(const std::vector<const CLI::App*>& chain) {
  std::string path = "ndctl";
  for (std::size_t i = 1; i < chain.size(); ++i) path += " " + chain[i]->get_name();
  return path;
}

std::vector<std::string> VisibleCommands(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App* s) { return !s->get_group().empty(); })) {
    names.push_back(sub->get_name());
  }
  return names;
}

const CLI::App* FindCommand(const CLI::App& app, const std::string& word) {
  const auto found = app.get_subcommands([&](const CLI::App* sub) { return sub->check_name(word); });
  return found.empty() ? nullptr : found.front();
}

const CLI::Option* FindOption(const std::vector<const CLI::App*>& chain, const std::string& name) {
  for (const CLI::App* app : chain) {
    for (const CLI::Option* option : app->get_options()) {
      if (option->nonpositional() && option->check_name(name)) return option;
    }
  }
  return nullptr;
}

std::vector<std::string> OptionNames(const std::vector<const CLI::App*>& chain) {
  std::vector<std::string> names;
  for (const CLI::App* app : chain) {
    for (const CLI::Option* option : app->get_options()) {
      for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
    }
  }
  return names;
}

std::size_t Positionals(const CLI::App& app) {
  const auto options = app.get_options([](const CLI::Option* option) { return option->get_positional(); });
  return options.size();
}

Failure SetOutput(Context& context) {
  if (Failure failure = Output::Parse(context.globals.output, &context.output)) return failure;
  const std::vector<std::string> modes = {"auto", "always", "never"};
  const auto mode = std::find(modes.begin(), modes.end(), context.globals.color);
  if (mode == modes.end()) {
    return Error{Exit::kUsage,
                 "unknown colour mode '" + context.globals.color + "'",
                 Suggest(context.globals.color, modes),
                 {}};
  }
  context.output.color = UseColor(static_cast<ColorMode>(mode - modes.begin()), isatty(STDOUT_FILENO) != 0);
  if (!std::isfinite(context.globals.timeout) || context.globals.timeout <= 0 ||
      context.globals.timeout > 86400) {
    return Error{Exit::kUsage, "--timeout must be more than 0 and at most 86400 seconds", {}, {}};
  }
  return std::nullopt;
}

}  // namespace

void BuildApp(CLI::App& app, Context& context) {
  app.description("Shows and steers the ndbroker on this host");
  app.require_subcommand(1);
  app.set_help_flag("-h,--help", "This text; also after a command");
  app.set_version_flag("--version", std::string("ndctl ") + kVersion);
  app.add_option("-o,--output", context.globals.output,
                 "table, wide, json, jsonl, yaml, name or custom=COLUMN,...")
      ->envname("NDCTL_OUTPUT");
  app.add_option("--address", context.globals.address,
                 "Directory of the broker's sockets (default: found by itself)")
      ->envname("NDCTL_ADDRESS");
  app.add_option("--timeout", context.globals.timeout, "Seconds to wait for an answer");
  app.add_option("--color", context.globals.color, "auto, always or never");
  for (const Command& command : Commands()) command.add(app, context);
}

Error Diagnose(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error) {
  std::vector<const CLI::App*> chain = {&app};
  std::size_t positionals = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-') {
      const bool is_long = word.starts_with("--");
      const std::size_t equal = word.find('=');
      const std::string name = is_long ? word.substr(0, equal) : word.substr(0, 2);
      const CLI::Option* option = FindOption(chain, name);
      if (option == nullptr) {
        const auto nearest = Nearest(name, OptionNames(chain));
        return {Exit::kUsage,
                Path(chain) + " has no option '" + name + "'",
                nearest ? "did you mean '" + *nearest + "'?" : "see " + Path(chain) + " --help",
                {}};
      }
      const bool has_value = is_long ? equal != std::string::npos : word.size() > 2;
      if (option->get_expected_max() > 0 && !has_value) ++i;
      continue;
    }
    if (const CLI::App* next = FindCommand(*chain.back(), word); next != nullptr) {
      chain.push_back(next);
      positionals = 0;
      continue;
    }
    if (positionals < Positionals(*chain.back())) {
      ++positionals;
      continue;
    }
    const std::vector<std::string> commands = VisibleCommands(*chain.back());
    if (commands.empty()) {
      return {
          Exit::kUsage, Path(chain) + " does not take '" + word + "'", "see " + Path(chain) + " --help", {}};
    }
    return {Exit::kUsage, Path(chain) + " has no command '" + word + "'", Suggest(word, commands), {}};
  }
  const std::vector<std::string> commands = VisibleCommands(*chain.back());
  if (!commands.empty() && chain.back()->get_require_subcommand_min() > 0) {
    return {Exit::kUsage, Path(chain) + " needs a command", Suggest("", commands), {}};
  }
  std::string what = error.what();
  while (!what.empty() && what.back() == '\n') what.pop_back();
  return {Exit::kUsage, Path(chain) + ": " + what, "see " + Path(chain) + " --help", {}};
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

int Main(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto fail = [&](const Error& error) {
    std::fputs(FormatError(error, WantsJson(arguments)).c_str(), stderr);
    return static_cast<int>(error.exit);
  };
  Context context;
  CLI::App app("", "ndctl");
  BuildApp(app, context);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return fail(Diagnose(app, arguments, error));
  }
  if (Failure failure = SetOutput(context)) return fail(*failure);
  if (Failure failure = context.run()) return fail(*failure);
  return static_cast<int>(Exit::kOk);
}

}  // namespace nd::cli
