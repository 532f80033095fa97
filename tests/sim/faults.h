// SPDX-License-Identifier: Apache-2.0
// Faults that can be switched on to prove that the simulator detects them. They are in the harness and act as
// if the core, its shell or the model had them; the core is never changed.
#pragma once

#include <string_view>

namespace nd::sim {

struct Mistake {
  std::string_view name, what;
};
inline constexpr Mistake kMistakes[] = {
    {"swallow-completion", "the core forgets to complete an operation"},
    {"double-completion", "the core completes an operation twice"},
    {"old-handle", "the core gives out a handle of another life"},
    {"greedy-limits", "Accept sends one Read more than was agreed"},
    {"wrong-refusal", "a request is refused for another reason than the true one"},
    {"forget-reject", "the shell does not pass a refusal on"},
    {"forget-release", "the shell keeps host ports for ever"},
    {"forget-lease-end", "the shell does not tell the journal of a released port"},
    {"outlive-shortage", "a library swallows what a refused allocation throws, and the broker goes on"},
    {"leak-failed-hand-off", "the shell keeps the descriptor of a hand-off that failed"},
    {"model-ignores-wildcards", "the model lets a wildcard and an exact address share a port"},
};

}  // namespace nd::sim
