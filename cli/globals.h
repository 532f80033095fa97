// SPDX-License-Identifier: Apache-2.0
// The options that every command takes, each also as an environment variable.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/context.h"

namespace nd::cli {

void AddGlobals(Command app, Context& context);

// Sets Context::output and the numbers behind the texts; a usage error names the wrong one.
Failure ApplyGlobals(Command app, Context& context);

// True when errors should be JSON; works on command lines that do not parse.
bool WantsJson(const std::vector<std::string>& arguments);

}  // namespace nd::cli
