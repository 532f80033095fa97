// SPDX-License-Identifier: Apache-2.0
// The commands of ndctl: one noun, one file, one line in kCommands (registry.cc).
#pragma once

#include <CLI/CLI.hpp>
#include <span>

#include "cli/context.h"

namespace nd::cli {

struct Command {
  // Adds the command to the root; its callback sets Context::run.
  void (*add)(CLI::App& root, Context& context);
};

std::span<const Command> Commands();

void AddStatus(CLI::App& root, Context& context);
void AddAdapter(CLI::App& root, Context& context);
void AddListener(CLI::App& root, Context& context);
void AddConnection(CLI::App& root, Context& context);
void AddEndpoint(CLI::App& root, Context& context);
void AddPort(CLI::App& root, Context& context);
void AddSession(CLI::App& root, Context& context);
void AddConfig(CLI::App& root, Context& context);
void AddEvents(CLI::App& root, Context& context);
void AddPing(CLI::App& root, Context& context);
void AddVersion(CLI::App& root, Context& context);
void AddTesting(CLI::App& root, Context& context);

}  // namespace nd::cli
