// SPDX-License-Identifier: Apache-2.0
// How the system starts ndbrokerd: as a program, or by the service control manager of Windows, which also
// installs, starts and stops it ("ndbrokerd --service", docs/windows.md).
#pragma once

namespace nd {

// Calls `program` with the arguments, or does what "--service" says. Returns the exit code. Call it first in
// main().
int StartProgram(int argc, char** argv, int (*program)(int argc, char** argv));

}  // namespace nd
