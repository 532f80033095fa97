// SPDX-License-Identifier: Apache-2.0
// Facts of the kernel about this process and about clients.
//
// Any thread. Every function reads /proc or makes one system call; failures give empty values.
#pragma once

#include <cstdint>
#include <string>

namespace nd::ops {

// From os::FillWithRandom().
std::uint64_t RandomNumber();

// Makes a refused allocation end the program with a message on stderr, in any thread. A half-finished
// operation, or an exception that a library swallows in a callback, would leave a client waiting for ever; a
// broker that ends is restarted, and recovers its clients and ports.
void EndWhenMemoryRunsOut();

// Raises the soft limit of RLIMIT_NOFILE to the hard one; returns the new limit. Linux also makes the table
// of descriptors large: in a process with threads, the descriptor that makes it grow waits for other
// processors, up to 20 ms on the loop.
std::uint64_t RaiseFdLimit();
std::uint64_t FdLimit();
std::uint32_t OpenFds();
std::uint64_t ResidentBytes();

// Returns the command name of a process, printable; empty when the process is gone.
std::string CommandOf(std::uint32_t pid);
// Returns the text of /proc/PID/cgroup; empty when the process is gone.
std::string CgroupsOf(std::uint32_t pid);

// Returns the start time in clock ticks since boot; 0 when the process is gone. Together with the pid it
// identifies a process while the host runs.
std::uint64_t BornOf(std::uint32_t pid);

}  // namespace nd::ops
