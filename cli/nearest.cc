// SPDX-License-Identifier: Apache-2.0
// Finds the intended word for a mistyped command, option, column or field.
#include "cli/nearest.h"

#include <algorithm>
#include <cctype>

namespace nd::cli {
namespace {

std::string Lower(std::string_view text) {
  std::string out(text.substr(0, 64));  // Longer words are not typing errors, so the rest is ignored.
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

}  // namespace

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t cost = a[i - 1] == b[j - 1] ? 0 : 1;
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + cost});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
      }
    }
  }
  return d[a.size()][b.size()];
}

std::optional<std::string> Nearest(std::string_view word, const std::vector<std::string>& candidates) {
  const std::string wanted = Lower(word);
  if (wanted.empty()) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = 0;
  for (const std::string& candidate : candidates) {
    const std::string lower = Lower(candidate);
    std::size_t distance = EditDistance(wanted, lower);
    // Part of a name is a good hint too: "disconnect" for "connection disconnect-reason".
    if (wanted.size() >= 3 && lower.find(wanted) != std::string::npos)
      distance = std::min<std::size_t>(distance, 1);
    if (!best || distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  const std::size_t allowed = wanted.size() <= 3 ? 1 : (wanted.size() <= 6 ? 2 : 3);
  if (!best || best_distance > allowed) return std::nullopt;
  return best;
}

std::string Suggest(std::string_view word, const std::vector<std::string>& candidates) {
  if (const auto nearest = Nearest(word, candidates)) return "did you mean '" + *nearest + "'?";
  std::string out = "use one of: ";
  for (std::size_t i = 0; i < candidates.size(); ++i) out += (i == 0 ? "" : ", ") + candidates[i];
  return out;
}

}  // namespace nd::cli
