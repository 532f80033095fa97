// SPDX-License-Identifier: Apache-2.0
// The ordering rules, each as a program of both sides.
#pragma once

#include <cstdint>

#include "tests/integrity/duel.h"

namespace nd::integrity {

using Rule = void (*)(Duel& duel, std::uint64_t rounds);
// Returns null for an unknown name.
Rule WriteRule(const std::string& name);
Rule ReadRule(const std::string& name);
Rule WindowRule(const std::string& name);

}  // namespace nd::integrity
