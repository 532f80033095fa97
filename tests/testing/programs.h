// SPDX-License-Identifier: Apache-2.0
// Loops that must run at full speed inside an actor: re-creations of the Microsoft programs, races, storms.
#pragma once

#include <string>

namespace nd::testing {

// `arguments` is "key=value" words. Returns "ok ..." with counters, or a description of the error.
std::string RunProgram(const std::string& name, const std::string& arguments);

}  // namespace nd::testing
