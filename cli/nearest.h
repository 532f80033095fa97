// SPDX-License-Identifier: Apache-2.0
// Suggestions for mistyped words: "Did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nd::cli {

// The number of insertions, deletions, replacements and swaps of neighbours between two words.
std::size_t EditDistance(std::string_view a, std::string_view b);

// Returns the candidate nearest to `word`, ignoring case; no value when none is near.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates);

// Returns a did-you-mean sentence, or the list of candidates.
std::string Suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace nd::cli
