// SPDX-License-Identifier: Apache-2.0
// Users and groups on a command line, by number or by name.
#pragma once

#include <cstdint>
#include <string>

#include "cli/error.h"

namespace nd::cli {

// Returns a usage error that names an unknown user.
Failure ParseUser(const std::string& text, std::uint32_t* uid);
Failure ParseGroup(const std::string& text, std::uint32_t* gid);

}  // namespace nd::cli
