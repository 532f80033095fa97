// SPDX-License-Identifier: Apache-2.0
// The order here is the order of `ndctl --help`. A command that this system does not have adds nothing
// (absent_linux.cc, absent_win.cc).
#include "cli/commands.h"
#include "cli/verbs_program.h"

namespace nd::cli {

void AddCommands(Command root, Context& context) {
  AddStatus(root, context);
  AddAdapter(root, context);
  AddListener(root, context);
  AddConnection(root, context);
  AddEndpoint(root, context);
  AddPort(root, context);
  AddSession(root, context);
  AddQp(root, context);
  AddMr(root, context);
  AddStats(root, context);
  AddTop(root, context);
  AddEvents(root, context);
  AddHistory(root, context);
  AddPing(root, context);
  AddTrace(root, context);
  AddCapture(root, context);
  AddRun(root, context);
  AddNd(root, context);
  AddDoctor(root, context);
  AddExplain(root, context);
  AddPolicy(root, context);
  AddConfig(root, context);
  AddDrain(root, context);
  AddWait(root, context);
  AddDebug(root, context);
  AddCompletion(root, context);
  AddTls(root, context);
  AddVersion(root, context);
  AddTesting(root, context);
}

}  // namespace nd::cli
