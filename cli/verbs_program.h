// SPDX-License-Identifier: Apache-2.0
// How `ndctl run` starts an unmodified verbs program: the environment that it gets, and whether that can
// work.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "cli/command.h"
#include "cli/error.h"

namespace nd::cli {

// Adds the commands run and env.
void AddRun(Command root, Context& context);

// The memory that a program shares with peers of this host.
enum class SharedBuffers { kNone, kPages, kAll };  // kPages: whole pages; kAll: malloc()'s, too.

struct VerbsOptions {
  std::string as = "roce";  // roce or iwarp
  std::string adapter;      // Empty: every adapter.
  std::string broker;       // The broker's directory; empty: the directory that every client finds.
  bool sockets = false;     // Sockets of the program become rsockets.
  bool spin = false;        // A thread of the program polls.
  SharedBuffers shared = SharedBuffers::kPages;
};

using Variables = std::vector<std::pair<std::string, std::string>>;

// The variables that make a program use the broker. `preload` and `library_path` are the values that
// LD_PRELOAD and LD_LIBRARY_PATH have now; they follow ours. `rsockets` is the path of librspreload, used
// with `sockets`.
Variables VerbsEnvironment(const VerbsOptions& options, const std::string& library,
                           const std::string& rsockets, const std::string& preload,
                           const std::string& library_path);

// Finds libibverbs.so.1 of ndbroker, beside this ndctl or where it is installed.
Failure FindVerbsLibrary(std::string* path);
// librspreload of the distribution.
Failure FindRsockets(std::string* path);

// Finds the file of `command`, by PATH when the command has no slash.
Failure FindProgram(const std::string& command, std::string* path);
// Refuses a program that ignores LD_PRELOAD: statically linked, of another C library, or with more rights
// than its user. For a script it checks the interpreter.
Failure CheckProgram(const std::string& path);

}  // namespace nd::cli
