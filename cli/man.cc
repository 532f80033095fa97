// SPDX-License-Identifier: Apache-2.0
// Written from the parser, so that no command and no option can be missing.
#include "cli/man.h"

#include <algorithm>

namespace nd::cli {
namespace {

// scdoc's own characters lose their meaning.
std::string Plain(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '*' || c == '_' || c == '\\' || c == '#' || c == '[') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out;
}

bool Hidden(const CLI::App& app) {
  return app.get_group().empty();
}

std::string OptionName(const CLI::Option& option) {
  if (option.get_positional()) return "_" + Plain(option.get_name(true, false)) + "_";
  std::string name;
  for (const std::string& s : option.get_snames()) name += (name.empty() ? "*-" : ", *-") + Plain(s) + "*";
  for (const std::string& l : option.get_lnames()) name += (name.empty() ? "*--" : ", *--") + Plain(l) + "*";
  if (option.get_expected_min() > 0) {
    std::string value = option.get_lnames().empty() ? "value" : option.get_lnames().front();
    std::ranges::transform(value, value.begin(),
                           [](char c) { return c == '-' ? '_' : static_cast<char>(std::toupper(c)); });
    name += " _" + Plain(value) + "_";
  }
  return name;
}

void WriteOptions(const CLI::App& app, bool globals, std::string* out) {
  for (const CLI::Option* option : app.get_options()) {
    const bool help = option->check_lname("help") && !globals;
    if (help || option->get_group().empty()) continue;
    *out += OptionName(*option) + "\n\t" + Plain(option->get_description()) + ".";
    if (!option->get_envname().empty())
      *out += " Also by the environment: *" + Plain(option->get_envname()) + "*.";
    *out += "\n\n";
  }
}

void WriteCommand(const CLI::App& app, const std::string& path, std::string* out) {
  if (Hidden(app)) return;
  const std::string name = path + " " + app.get_name();
  std::string synopsis = "*" + Plain(name) + "*";
  for (const CLI::Option* option : app.get_options()) {
    if (!option->get_positional()) continue;
    const std::string word = "_" + Plain(option->get_name(true, false)) + "_";
    synopsis += option->get_required() ? " " + word : " \\[" + word + "]";
  }
  *out += "## " + Plain(name.substr(6)) + "\n\n" + synopsis + "\n\n" + Plain(app.get_description()) + ".\n\n";
  if (!app.get_aliases().empty()) {
    *out += "Also called:";
    for (const std::string& alias : app.get_aliases()) *out += " *" + Plain(alias) + "*";
    *out += "\n\n";
  }
  WriteOptions(app, false, out);
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; }))
    WriteCommand(*sub, name, out);
}

}  // namespace

std::string ManualPage(const CLI::App& root) {
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
  for (const CLI::App* sub : root.get_subcommands([](const CLI::App*) { return true; }))
    WriteCommand(*sub, "ndctl", &out);
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
