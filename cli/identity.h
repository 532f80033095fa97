// SPDX-License-Identifier: Apache-2.0
// Users and groups of this system as a command line names them, by number or by name.
#pragma once

#include <cstdint>
#include <string>

#include "cli/error.h"

namespace nd::cli {

// A usage error names who is unknown.
Failure ParseUser(const std::string& text, std::uint32_t* uid);
Failure ParseGroup(const std::string& text, std::uint32_t* gid);

}  // namespace nd::cli
