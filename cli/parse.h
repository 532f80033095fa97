// SPDX-License-Identifier: Apache-2.0
// The command line: from words to the command to run, or to an error that names the wrong word.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/context.h"
#include "cli/error.h"

namespace nd::cli {

// The command line of ndctl: the global options and every command.
std::unique_ptr<CommandLine> MakeCommandLine(Context& context);

// Returns the error for `arguments` (without the program's name), which the parser refused with `problem`.
Error Diagnose(const CommandInfo& root, const std::vector<std::string>& arguments,
               const std::string& problem);

// Parses and runs. Output goes to stdout, errors to stderr; returns the exit code.
int Main(int argc, const char* const* argv);

}  // namespace nd::cli
