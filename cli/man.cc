// SPDX-License-Identifier: Apache-2.0
// Generated from the parser, so that no command or option is missing.
#include "cli/man.h"

#include <algorithm>
#include <cctype>

namespace nd::cli {
namespace {

// Escapes the special characters of scdoc.
std::string Plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '_' || c == '\\' || c == '#' || c == '[') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

std::string OptionName(const OptionInfo& option) {
  if (option.positional()) return "_" + Plain(option.position) + "_";
  std::string name;
  for (const std::string& s : option.short_names) name += (name.empty() ? "*-" : ", *-") + Plain(s) + "*";
  for (const std::string& l : option.long_names) name += (name.empty() ? "*--" : ", *--") + Plain(l) + "*";
  if (option.values_min > 0) {
    std::string value = option.long_names.empty() ? "value" : option.long_names.front();
    std::ranges::transform(value, value.begin(),
                           [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    name += " _" + Plain(value) + "_";
  }
  return name;
}

void WriteOptions(const CommandInfo& command, bool globals, std::string* out) {
  for (const OptionInfo& option : command.options) {
    const bool help = option.Is("--help") && !globals;
    if (help || option.hidden) continue;
    *out += OptionName(option) + "\n\t" + Plain(option.about) + ".";
    if (!option.environment.empty()) *out += " Also by the environment: *" + Plain(option.environment) + "*.";
    *out += "\n\n";
  }
}

void WriteCommand(const CommandInfo& command, const std::string& path, std::string* out) {
  if (command.hidden) return;
  const std::string name = path + " " + command.name;
  std::string synopsis = "*" + Plain(name) + "*";
  for (const OptionInfo& option : command.options) {
    if (!option.positional()) continue;
    const std::string word = "_" + Plain(option.position) + "_";
    synopsis += option.required ? " " + word : " \\[" + word + "]";
  }
  *out += "## " + Plain(name.substr(6)) + "\n\n" + synopsis + "\n\n" + Plain(command.about) + ".\n\n";
  if (!command.aliases.empty()) {
    *out += "Also called:";
    for (const std::string& alias : command.aliases) *out += " *" + Plain(alias) + "*";
    *out += "\n\n";
  }
  WriteOptions(command, false, out);
  for (const CommandInfo& sub : command.commands) WriteCommand(sub, name, out);
}

}  // namespace

std::string ManualPage(const CommandInfo& root) {
  std::string out = R"(ndctl(1)

# NAME

ndctl - show and steer the RDMA connection broker

# SYNOPSIS

*ndctl* [_options_] _command_ [_arguments_]

# DESCRIPTION

*ndctl* talks to *ndbrokerd*(8) on this host through its admin socket, or with *--host* to that of another host through
*ndbroker-gateway*(8). Without a verb a noun lists: *ndctl connection* is *ndctl connection list*.

# OPTIONS

Options may stand before or after the command.

)";
  WriteOptions(root, true, &out);
  out += "# COMMANDS\n\n";
  for (const CommandInfo& command : root.commands) WriteCommand(command, "ndctl", &out);
  out += R"(# EXIT STATUS

*0*
	done

*1*
	failed for another reason

*2*
	the command line is wrong

*3*
	no such object, or it is not in a state for this

*4*
	the broker cannot be reached

*5*
	no permission

*6*
	no answer in time

Errors go to standard error with the cause and the next step; with *-o json* as one JSON object.

# ENVIRONMENT

*NDBROKER_DIR*
	Directory of the broker's sockets, for *ndctl* and for every application.

*NDCTL_PAGER*, *PAGER*
	What shows output that does not fit the terminal.

*NO_COLOR*
	No colours.

# SEE ALSO

*ndbrokerd*(8), *ndbrokerd.toml*(5), *ndbroker-gateway*(8)
)";
  return out;
}

}  // namespace nd::cli
