// SPDX-License-Identifier: Apache-2.0
// Completes a command line for shells. Pure except for `ids`, which asks the broker.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/command_info.h"
#include "cli/noun.h"

namespace nd::cli {

struct Candidate {
  std::string word, about;
};

// `words` is the command line after "ndctl"; the last one, possibly empty, is being typed. Returns candidates
// that start with it. `noun_of` finds a noun by name or alias, `ids` returns its objects; both may return
// nothing.
std::vector<Candidate> Complete(const CommandInfo& root, const std::vector<std::string>& words,
                                const std::function<const Noun*(const std::string&)>& noun_of,
                                const std::function<std::vector<Candidate>(const Noun&)>& ids);

// The script that teaches a shell to ask `ndctl __complete`: "bash", "zsh", "fish"; null for another.
const char* CompletionScript(const std::string& shell);

// `ndctl __complete WORD...`: prints one candidate with a tab and a description per line. Never fails and
// never takes long.
std::string AnswerShell(Context& context, const CommandInfo& root, const std::vector<std::string>& words);

}  // namespace nd::cli
