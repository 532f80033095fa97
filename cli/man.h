// SPDX-License-Identifier: Apache-2.0
// The manual page of ndctl, in scdoc's language, from the tree of commands that parses its command line.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace nd::cli {

std::string ManualPage(const CLI::App& root);

}  // namespace nd::cli
