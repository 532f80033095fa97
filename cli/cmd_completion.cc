// SPDX-License-Identifier: Apache-2.0
// ndctl completion: what to put into a shell's start-up file.
#include <memory>

#include "cli/commands.h"
#include "cli/complete.h"

namespace nd::cli {

void AddCompletion(CLI::App& root, Context& context) {
  CLI::App* app = root.add_subcommand("completion", "Script that teaches a shell to complete ndctl's words");
  const auto shell = std::make_shared<std::string>();
  app->add_option("SHELL", *shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app->callback([&context, shell] {
    context.run = [&context, shell] { return context.Write(CompletionScript(*shell)); };
  });
}

}  // namespace nd::cli
