// SPDX-License-Identifier: Apache-2.0
// The commands of ndctl: one noun, one file, one line in registry_linux.cc and registry_win.cc.
#pragma once

#include "cli/command.h"

namespace nd::cli {

// Adds every command that this system has to the root.
void AddCommands(Command root, Context& context);

void AddStatus(Command root, Context& context);
void AddAdapter(Command root, Context& context);
void AddListener(Command root, Context& context);
void AddConnection(Command root, Context& context);
void AddEndpoint(Command root, Context& context);
void AddPort(Command root, Context& context);
void AddSession(Command root, Context& context);
void AddConfig(Command root, Context& context);
void AddEvents(Command root, Context& context);
void AddQp(Command root, Context& context);
void AddMr(Command root, Context& context);
void AddNd(Command root, Context& context);
void AddPolicy(Command root, Context& context);
void AddDrain(Command root, Context& context);
void AddHistory(Command root, Context& context);
void AddStats(Command root, Context& context);
void AddTop(Command root, Context& context);
void AddTrace(Command root, Context& context);
void AddWait(Command root, Context& context);
void AddDoctor(Command root, Context& context);
void AddExplain(Command root, Context& context);
void AddDebug(Command root, Context& context);
void AddPing(Command root, Context& context);
void AddCapture(Command root, Context& context);
void AddCompletion(Command root, Context& context);
void AddTls(Command root, Context& context);
void AddVersion(Command root, Context& context);
void AddTesting(Command root, Context& context);

}  // namespace nd::cli
