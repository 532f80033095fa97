// SPDX-License-Identifier: Apache-2.0
#include "cli/command_info.h"

#include <algorithm>

namespace nd::cli {

bool OptionInfo::Is(std::string_view word) const {
  if (word.starts_with("--")) return std::ranges::find(long_names, word.substr(2)) != long_names.end();
  if (word.starts_with("-")) return std::ranges::find(short_names, word.substr(1)) != short_names.end();
  return false;
}

const CommandInfo* CommandInfo::Find(std::string_view word) const {
  const auto found = std::ranges::find_if(commands, [&](const CommandInfo& command) {
    return command.name == word || std::ranges::find(command.aliases, word) != command.aliases.end();
  });
  return found == commands.end() ? nullptr : &*found;
}

const OptionInfo* FindOption(const CommandPath& path, std::string_view word) {
  for (auto command = path.rbegin(); command != path.rend(); ++command) {
    for (const OptionInfo& option : (*command)->options) {
      if (option.Is(word)) return &option;
    }
  }
  return nullptr;
}

}  // namespace nd::cli
