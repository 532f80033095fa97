// SPDX-License-Identifier: Apache-2.0
// The commands of other systems: a host without Winsock has no catalogue of providers.
#include "cli/commands.h"

namespace nd::cli {

void AddNd(Command, Context&) {}

}  // namespace nd::cli
