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
void AddQp(CLI::App& root, Context& context);
void AddMr(CLI::App& root, Context& context);
void AddPolicy(CLI::App& root, Context& context);
void AddDrain(CLI::App& root, Context& context);
void AddHistory(CLI::App& root, Context& context);
void AddStats(CLI::App& root, Context& context);
void AddTop(CLI::App& root, Context& context);
void AddTrace(CLI::App& root, Context& context);
void AddWait(CLI::App& root, Context& context);
void AddDoctor(CLI::App& root, Context& context);
void AddExplain(CLI::App& root, Context& context);
void AddDebug(CLI::App& root, Context& context);
void AddPing(CLI::App& root, Context& context);
void AddCapture(CLI::App& root, Context& context);
void AddCompletion(CLI::App& root, Context& context);
void AddTls(CLI::App& root, Context& context);
void AddVersion(CLI::App& root, Context& context);
void AddTesting(CLI::App& root, Context& context);

}  // namespace nd::cli
