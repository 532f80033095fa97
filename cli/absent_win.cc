// SPDX-License-Identifier: Apache-2.0
// The commands of other systems: Windows has no programs of libibverbs, and this build neither libpcap nor
// OpenSSL.
#include "cli/commands.h"
#include "cli/verbs_program.h"

namespace nd::cli {

void AddCapture(Command, Context&) {}
void AddRun(Command, Context&) {}
void AddTls(Command, Context&) {}

}  // namespace nd::cli
