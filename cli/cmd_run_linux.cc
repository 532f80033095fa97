// SPDX-License-Identifier: Apache-2.0
// ndctl run, ndctl env: unmodified rdma_cm and verbs programs on the broker.
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "cli/context.h"
#include "cli/verbs_program.h"

namespace nd::cli {
namespace {

std::string Environment(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Failure MakeVariables(const Context& context, VerbsOptions options, Variables* out) {
  std::string library, rsockets;
  if (Failure failure = FindVerbsLibrary(&library)) return failure;
  if (options.sockets) {
    if (Failure failure = FindRsockets(&rsockets)) return failure;
  }
  options.broker = context.globals.address;
  *out =
      VerbsEnvironment(options, library, rsockets, Environment("LD_PRELOAD"), Environment("LD_LIBRARY_PATH"));
  return {};
}

Failure RunProgram(const Context& context, const VerbsOptions& options,
                   const std::vector<std::string>& command) {
  std::string program;
  if (Failure failure = FindProgram(command.front(), &program)) return failure;
  if (Failure failure = CheckProgram(program)) return failure;
  Variables variables;
  if (Failure failure = MakeVariables(context, options, &variables)) return failure;
  for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
  // Undoes the changes that main() made for ndctl itself.
  std::signal(SIGPIPE, SIG_DFL);
  if (Environment("GRPC_VERBOSITY") == "NONE") unsetenv("GRPC_VERBOSITY");
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  execv(program.c_str(), arguments.data());
  return Error{Exit::kFailed, "cannot start " + program + ": " + std::strerror(errno), {}, {}};
}

Failure PrintVariables(const Context& context, const VerbsOptions& options) {
  Variables variables;
  if (Failure failure = MakeVariables(context, options, &variables)) return failure;
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + value + "\n";
  return context.Write(text);
}

void AddOptions(Command app, VerbsOptions* options) {
  app.Add("--as", &options->as, "The kind of the emulated devices").OneOf({"roce", "iwarp"}).ShowDefault();
  app.Add("--adapter", &options->adapter, "Show the program this adapter only");
  app.AddFlag("--sockets", &options->sockets, "Turn the program's TCP sockets into rsockets");
  app.AddFlag("--spin", &options->spin, "Poll in a thread of the program, which occupies a processor");
  app.AddFlag("--share-memory", &options->share_memory,
              "Share buffers that the program allocates with its peers of this host");
}

}  // namespace

void AddRun(Command root, Context& context) {
  const auto options = std::make_shared<VerbsOptions>();
  const auto command = std::make_shared<std::vector<std::string>>();
  Command run = root.Add("run", "Run an unmodified RDMA program (rdma_cm, verbs) on the broker");
  AddOptions(run, options.get());
  run.Add("COMMAND", command.get(), "The program and its arguments, after --").Required();
  run.OnRun(context, [&context, options, command] { return RunProgram(context, *options, *command); });

  const auto printed = std::make_shared<VerbsOptions>();
  Command env = root.Add("env", "The environment of 'ndctl run', for mpirun -x and containers");
  AddOptions(env, printed.get());
  env.OnRun(context, [&context, printed] { return PrintVariables(context, *printed); });
}

}  // namespace nd::cli
