// SPDX-License-Identifier: Apache-2.0
// What could come next on a command line, for shells. Pure but for `ids`, which asks the broker.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/noun.h"

namespace nd::cli {

struct Candidate {
  std::string word, about;
};

// `words` is the command line after "ndctl"; the last one, possibly empty, is being typed. Only candidates
// that begin with it. `noun_of` finds a noun by name or alias, `ids` what it lists now; both may know
// nothing.
std::vector<Candidate> Complete(CLI::App& root, const std::vector<std::string>& words,
                                const std::function<const Noun*(const std::string&)>& noun_of,
                                const std::function<std::vector<Candidate>(const Noun&)>& ids);

// The script that teaches a shell to ask `ndctl __complete`: "bash", "zsh", "fish"; null for another.
const char* CompletionScript(const std::string& shell);

// `ndctl __complete WORD...`: one candidate a line, a tab, what it is. Never fails, never takes long.
std::string AnswerShell(Context& context, CLI::App& root, const std::vector<std::string>& words);

}  // namespace nd::cli
