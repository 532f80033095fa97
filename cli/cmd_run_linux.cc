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

// The options as the line has them.
struct RunOptions {
  VerbsOptions program;
  bool share_memory = false, no_share_memory = false;
};

Failure MakeVariables(const Context& context, const RunOptions& line, Variables* out) {
  if (line.share_memory && line.no_share_memory) {
    return Error{
        Exit::kUsage, "--share-memory and --no-share-memory exclude each other", "give one of them", {}};
  }
  VerbsOptions options = line.program;
  if (line.share_memory) options.shared = SharedBuffers::kAll;
  if (line.no_share_memory) options.shared = SharedBuffers::kNone;
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

Failure RunProgram(const Context& context, const RunOptions& options,
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

Failure PrintVariables(const Context& context, const RunOptions& options) {
  Variables variables;
  if (Failure failure = MakeVariables(context, options, &variables)) return failure;
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + value + "\n";
  return context.Write(text);
}

void AddOptions(Command app, RunOptions* line) {
  VerbsOptions* const options = &line->program;
  app.Add("--as", &options->as, "The kind of the emulated devices").OneOf({"roce", "iwarp"}).ShowDefault();
  app.Add("--adapter", &options->adapter, "Show the program this adapter only");
  app.AddFlag("--sockets", &options->sockets, "Turn the program's TCP sockets into rsockets");
  app.AddFlag("--spin", &options->spin, "Poll in a thread of the program, which occupies a processor");
  app.AddFlag("--share-memory", &line->share_memory,
              "Share more of the program's buffers with its peers of this host: those of malloc, too");
  app.AddFlag("--no-share-memory", &line->no_share_memory, "Share none of the program's buffers");
}

}  // namespace

void AddRun(Command root, Context& context) {
  const auto options = std::make_shared<RunOptions>();
  const auto command = std::make_shared<std::vector<std::string>>();
  Command run = root.Add("run", "Run an unmodified RDMA program (rdma_cm, verbs) on the broker");
  AddOptions(run, options.get());
  run.Add("COMMAND", command.get(), "The program and its arguments, after --").Required();
  run.OnRun(context, [&context, options, command] { return RunProgram(context, *options, *command); });

  const auto printed = std::make_shared<RunOptions>();
  Command env = root.Add("env", "The environment of 'ndctl run', for mpirun -x and containers");
  AddOptions(env, printed.get());
  env.OnRun(context, [&context, printed] { return PrintVariables(context, *printed); });
}

}  // namespace nd::cli
