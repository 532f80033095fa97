// SPDX-License-Identifier: Apache-2.0
// ndctl completion: prints the completion script of a shell.
#include <memory>

#include "cli/commands.h"
#include "cli/complete.h"

namespace nd::cli {

void AddCompletion(Command root, Context& context) {
  Command app = root.Add("completion", "Script that teaches a shell to complete ndctl's words");
  const auto shell = std::make_shared<std::string>();
  app.Add("SHELL", shell.get(), "bash, zsh or fish").Required().OneOf({"bash", "zsh", "fish"});
  app.OnRun(context, [&context, shell] { return context.Write(CompletionScript(*shell)); });
}

}  // namespace nd::cli
