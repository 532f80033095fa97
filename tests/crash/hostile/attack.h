// SPDX-License-Identifier: Apache-2.0
// An attack: one or more processes of another user that continue until they are killed. They report through
// descriptor 3. One thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace nd::hostile {

// The attacked broker, at 127.0.0.`host` with its sockets in `directory`; its TCP port is kWirePort.
struct Target {
  std::string directory;
  int host = 2;
  int number = 0;  // Which of the processes of the attack this is.
};
inline constexpr std::uint16_t kWirePort = 4794;    // The broker's TCP port.
inline constexpr std::uint16_t kHonestPort = 7000;  // The honest tenant listens here.
inline constexpr std::uint16_t kVictimPort = 7001;  // The honest tenant accepts every connection here.
inline constexpr std::uint16_t kScrapePort = 9885;  // The broker's metrics.

struct Attack {
  const char* name;  // "L4.connections": the row of the threat model, and its subject.
  int processes;
  // Calls Underway() when the attack has begun and Broken() when it succeeded. Does not return.
  void (*run)(const Target&);
  // A user that may have the rights of the attacked one, for attacks that the kernel forbids to others.
  bool same_user = false;
};

// The attacks of this program.
std::span<const Attack> Attacks();

// The attack has begun. The first call counts.
void Underway();
// Reports that the attack achieved what it must not achieve.
void Broken(const std::string& what);

// fork(); the child ends with its parent, because only the processes of the attack are killed at its end.
int ForkWithMe();

}  // namespace nd::hostile
