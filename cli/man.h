// SPDX-License-Identifier: Apache-2.0
// The manual page of ndctl, in scdoc's language, from the tree of commands that parses its command line.
#pragma once

#include <string>

#include "cli/command_info.h"

namespace nd::cli {

std::string ManualPage(const CommandInfo& root);

}  // namespace nd::cli
