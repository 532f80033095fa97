// SPDX-License-Identifier: Apache-2.0
// The program "order". A rule that ends its connection is repeated on new connections.
#include "tests/integrity/order.h"

namespace nd::integrity {

std::string RunOrder(const Words& words) {
  const std::string name = words.Text("rule");
  const std::uint64_t rounds = words.Number("rounds");
  for (const auto find : {WriteRule, ReadRule, WindowRule}) {
    if (const Rule rule = find(name)) {
      for (std::uint64_t i = 0; i < words.Number("connections", 1); ++i) {
        Duel duel(words);
        rule(duel, rounds);
      }
      return "ok rounds=" + std::to_string(rounds * words.Number("connections", 1));
    }
  }
  return "no rule called \"" + name + "\"";
}

}  // namespace nd::integrity
