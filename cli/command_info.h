// SPDX-License-Identifier: Apache-2.0
// The tree of commands as plain values: the source of completion, of the manual page and of errors that name
// the wrong word.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nd::cli {

struct OptionInfo {
  std::vector<std::string> long_names;   // "output"
  std::vector<std::string> short_names;  // "o"
  std::string position;                  // "ADDRESS"; empty for options with dashes.
  std::string about;
  std::string environment;  // Variable that sets it; may be empty.
  bool hidden = false;
  bool required = false;
  int values_min = 0, values_max = 0;  // A flag takes none.

  bool positional() const { return !position.empty(); }
  // `word` is "--output" or "-o".
  bool Is(std::string_view word) const;
};

struct CommandInfo {
  std::string name;
  std::vector<std::string> aliases;
  std::string about;
  bool hidden = false;
  bool needs_command = false;
  std::vector<OptionInfo> options;
  std::vector<CommandInfo> commands;

  // By name or alias; null when there is none.
  const CommandInfo* Find(std::string_view word) const;
};

// Commands from the root to the one that a line has reached.
using CommandPath = std::vector<const CommandInfo*>;

// The option that `word` names, of the last command first.
const OptionInfo* FindOption(const CommandPath& path, std::string_view word);

}  // namespace nd::cli
