// SPDX-License-Identifier: Apache-2.0
// "Did you mean ...?"
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace nd::cli {

// Insertions, deletions, replacements and swaps of neighbours that turn one word into the other.
std::size_t EditDistance(std::string_view a, std::string_view b);

// The candidate that `word` was probably meant to be, ignoring case; nothing when none is near.
std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates);

// Did-you-mean sentence, or the list of what there is.
std::string Suggest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace nd::cli
