// SPDX-License-Identifier: Apache-2.0
// Patterns of a shell: *, ?, [a-z]. Any thread.
#pragma once

#include <string>

namespace nd::os {

// Returns true when the whole text matches the pattern, without regard to case.
bool MatchesWildcard(const std::string& pattern, const std::string& text);

}  // namespace nd::os
