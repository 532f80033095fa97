// SPDX-License-Identifier: Apache-2.0
// What the kernel knows about this process and about clients.
//
// Any thread. Everything here reads /proc or makes one system call; nothing fails loudly.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace nd::ops {

// Fills `out` from the kernel's generator. Ends the program when there is none: no token or epoch may be
// guessed.
void RandomBytes(std::span<std::byte> out);
std::uint64_t RandomNumber();

// From now on a refused allocation ends the program with a sentence on stderr, in whatever thread it happens.
// A deed half done, or an exception that a library swallows in a callback, would leave somebody waiting for
// ever; a broker that ends is started again, and finds its clients and ports as they were.
void EndWhenMemoryRunsOut();

// RLIMIT_NOFILE: soft limit up to the hard one; returns the limit that holds now.
std::uint64_t RaiseFdLimit();
std::uint64_t FdLimit();
std::uint32_t OpenFds();
std::uint64_t ResidentBytes();

// The command name of a process, printable; empty when it is gone.
std::string CommandOf(std::uint32_t pid);
// The text of its /proc/PID/cgroup; empty when it is gone.
std::string CgroupsOf(std::uint32_t pid);

// When it started, in clock ticks since boot; 0 when it is gone. Together with the number it names a process
// for as long as the host runs.
std::uint64_t BornOf(std::uint32_t pid);

}  // namespace nd::ops
