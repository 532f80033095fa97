// SPDX-License-Identifier: Apache-2.0
// The command line: from words to the command to run, or to an error that names the wrong word.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cli/context.h"
#include "cli/globals.h"

namespace nd::cli {

// Adds the global options and every command.
void BuildApp(CLI::App& app, Context& context);

// What is wrong with `arguments` (without the program's name) that CLI11 refused with `error`.
Error Diagnose(const CLI::App& app, const std::vector<std::string>& arguments, const CLI::ParseError& error);

// Parses and runs. Output goes to stdout, errors to stderr; returns the exit code.
int Main(int argc, const char* const* argv);

}  // namespace nd::cli
