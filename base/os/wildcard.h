// SPDX-License-Identifier: Apache-2.0
// Patterns of a shell: *, ?, [a-z]. Any thread.
#pragma once

#include <string>

namespace nd::os {

// Whether the whole text matches the pattern. Capital and small letters are the same.
bool MatchesWildcard(const std::string& pattern, const std::string& text);

}  // namespace nd::os
