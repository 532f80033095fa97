// SPDX-License-Identifier: Apache-2.0
// The parser says that a word was not expected; Diagnose() says which word, and which one was meant.
#include "cli/parse.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "cli/commands.h"
#include "cli/complete.h"
#include "cli/globals.h"
#include "cli/man.h"
#include "cli/nearest.h"
#include "cli/version.h"

namespace nd::cli {
namespace {

std::string PathText(const CommandPath& path) {
  std::string text = "ndctl";
  for (std::size_t i = 1; i < path.size(); ++i) text += " " + path[i]->name;
  return text;
}

std::vector<std::string> VisibleCommands(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const CommandInfo& sub : command.commands) {
    if (!sub.hidden) names.push_back(sub.name);
  }
  return names;
}

std::vector<std::string> OptionNames(const CommandPath& path) {
  std::vector<std::string> names;
  for (const CommandInfo* command : path) {
    for (const OptionInfo& option : command->options) {
      for (const std::string& name : option.long_names) names.push_back("--" + name);
    }
  }
  return names;
}

std::size_t Positionals(const CommandInfo& command) {
  return static_cast<std::size_t>(std::ranges::count_if(command.options, &OptionInfo::positional));
}

}  // namespace

std::unique_ptr<CommandLine> MakeCommandLine(Context& context) {
  auto line = std::make_unique<CommandLine>("ndctl", "Shows and steers the ndbroker on this host",
                                            std::string("ndctl ") + kVersion);
  line->root().RequireCommand();
  AddGlobals(line->root(), context);
  AddCommands(line->root(), context);
  return line;
}

Error Diagnose(const CommandInfo& root, const std::vector<std::string>& arguments,
               const std::string& problem) {
  CommandPath chain = {&root};
  std::size_t positionals = 0;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    if (word == "--") break;
    if (word.size() > 1 && word[0] == '-') {
      const bool is_long = word.starts_with("--");
      const std::size_t equal = word.find('=');
      const std::string name = is_long ? word.substr(0, equal) : word.substr(0, 2);
      const OptionInfo* option = FindOption(chain, name);
      if (option == nullptr) {
        const auto nearest = Nearest(name, OptionNames(chain));
        return {Exit::kUsage,
                PathText(chain) + " has no option '" + name + "'",
                nearest ? "did you mean '" + *nearest + "'?" : "see " + PathText(chain) + " --help",
                {}};
      }
      const bool has_value = is_long ? equal != std::string::npos : word.size() > 2;
      if (option->values_max > 0 && !has_value) ++i;
      continue;
    }
    if (const CommandInfo* next = chain.back()->Find(word); next != nullptr) {
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
      return {Exit::kUsage, PathText(chain) + " does not take '" + word + "'", "write --watch=" + word, {}};
    }
    if (commands.empty()) {
      return {Exit::kUsage,
              PathText(chain) + " does not take '" + word + "'",
              "see " + PathText(chain) + " --help",
              {}};
    }
    return {Exit::kUsage, PathText(chain) + " has no command '" + word + "'", Suggest(word, commands), {}};
  }
  const std::vector<std::string> commands = VisibleCommands(*chain.back());
  if (!commands.empty() && chain.back()->needs_command) {
    return {Exit::kUsage, PathText(chain) + " needs a command", Suggest("", commands), {}};
  }
  std::string what = problem;
  while (!what.empty() && what.back() == '\n') what.pop_back();
  for (const OptionInfo& option : root.options) {
    const char* value = option.environment.empty() ? nullptr : std::getenv(option.environment.c_str());
    if (value == nullptr || what.find("--" + option.long_names[0] + " ") == std::string::npos) continue;
    return {Exit::kUsage,
            "$" + option.environment + " is '" + value + "', which --" + option.long_names[0] + " cannot be",
            option.values_max == 0 ? "write true or false" : "see ndctl --help",
            {}};
  }
  return {Exit::kUsage, PathText(chain) + ": " + what, "see " + PathText(chain) + " --help", {}};
}

int Main(int argc, const char* const* argv) {
  const std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  const auto fail = [&](const Error& error) {
    std::fputs(FormatError(error, WantsJson(arguments)).c_str(), stderr);
    return static_cast<int>(error.exit);
  };
  Context context;
  const std::unique_ptr<CommandLine> line = MakeCommandLine(context);
  // Internal commands, which the parser does not know.
  if (!arguments.empty() && arguments[0] == "__complete") {
    const std::vector<std::string> words(arguments.begin() + 1, arguments.end());
    std::fputs(AnswerShell(context, line->Describe(), words).c_str(), stdout);
    return static_cast<int>(Exit::kOk);
  }
  if (arguments.size() == 1 && arguments[0] == "__man") {
    std::fputs(ManualPage(line->Describe()).c_str(), stdout);
    return static_cast<int>(Exit::kOk);
  }
  const ParsedLine parsed = line->Parse(argc, argv);
  if (parsed.kind == ParsedLine::Kind::kAnswered) {
    std::fputs(parsed.text.c_str(), stdout);
    return static_cast<int>(Exit::kOk);
  }
  if (parsed.kind == ParsedLine::Kind::kWrong) {
    return fail(Diagnose(line->Describe(), arguments, parsed.text));
  }
  context.command_line = "ndctl";
  for (const std::string& word : arguments) context.command_line += " " + word;
  if (Failure failure = ApplyGlobals(line->root(), context)) return fail(*failure);
  if (Failure failure = context.run()) return fail(*failure);
  return static_cast<int>(Exit::kOk);
}

}  // namespace nd::cli
