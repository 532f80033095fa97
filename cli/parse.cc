// SPDX-License-Identifier: Apache-2.0
// CLI11 says that something was not expected; people want to hear which word, and what was meant.
#include "cli/parse.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/man.h"
#include "cli/nearest.h"

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

}  // namespace

void BuildApp(CLI::App& app, Context& context) {
  app.description("Shows and steers the ndbroker on this host");
  app.require_subcommand(1);
  AddGlobals(app, context);
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
    if (commands.empty() && i > 0 && (arguments[i - 1] == "--watch" || arguments[i - 1] == "-w")) {
      return {Exit::kUsage, Path(chain) + " does not take '" + word + "'", "write --watch=" + word, {}};
    }
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
  for (const CLI::Option* option : app.get_options()) {
    const char* value = option->get_envname().empty() ? nullptr : std::getenv(option->get_envname().c_str());
    if (value != nullptr && what.find("--" + option->get_lnames()[0] + " ") != std::string::npos) {
      return {Exit::kUsage,
              "$" + option->get_envname() + " is '" + value + "', which --" + option->get_lnames()[0] +
                  " cannot be",
              option->get_expected_max() == 0 ? "write true or false" : "see ndctl --help",
              {}};
    }
  }
  return {Exit::kUsage, Path(chain) + ": " + what, "see " + Path(chain) + " --help", {}};
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
  // Not commands for people, so the parser does not know them.
  if (!arguments.empty() && arguments[0] == "__complete") {
    const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    std::fputs(AnswerShell(context, app, words).c_str(), stdout);
    return static_cast<int>(Exit::kOk);
  }
  if (arguments.size() == 1 && arguments[0] == "__man") {
    std::fputs(ManualPage(app).c_str(), stdout);
    return static_cast<int>(Exit::kOk);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    return app.exit(success);  // --help, --version
  } catch (const CLI::ParseError& error) {
    return fail(Diagnose(app, arguments, error));
  }
  context.command_line = "ndctl";
  for (const std::string& word : arguments) context.command_line += " " + word;
  if (Failure failure = ApplyGlobals(app, context)) return fail(*failure);
  if (Failure failure = context.run()) return fail(*failure);
  return static_cast<int>(Exit::kOk);
}

}  // namespace nd::cli
