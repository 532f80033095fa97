// SPDX-License-Identifier: Apache-2.0
// The parts of ndperf that differ by system, besides its processes. One thread.
#pragma once

#include <string>
#include <vector>

namespace nd::perf {

// Called first: a stream whose reader has gone is an error of the call from now on, and libraries are silent.
void PrepareProgram();
// The path of the running program.
std::string OwnProgram();
// The processors that this process may use.
std::vector<int> AllowedCpus();
// A new directory for this user alone. Empty: errno says why.
std::string MakeScratchDirectory();
// Writes to the parent, which gave this process the descriptor Process::kReportFd. False: nobody reads.
bool WriteReport(int fd, const std::string& text);

}  // namespace nd::perf
