// SPDX-License-Identifier: Apache-2.0
// The rules of order, each as a program of both sides.
#pragma once

#include <cstdint>

#include "tests/integrity/duel.h"

namespace nd::integrity {

using Rule = void (*)(Duel& duel, std::uint64_t rounds);
// Null for a name that is no rule.
Rule WriteRule(const std::string& name);
Rule ReadRule(const std::string& name);
Rule WindowRule(const std::string& name);

}  // namespace nd::integrity
