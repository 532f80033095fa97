// SPDX-License-Identifier: Apache-2.0
// Floors: measurements of what this machine can do with nothing of ndbroker in between. The suite divides the
// figures of ndperf by them, so that results of different machines can be compared.
//
// Each floor runs for about `seconds` in this process, pinned to `cpu`, and in a child, pinned to `peer_cpu`.
// A floor that cannot run prints the reason and ends the process.
#pragma once

#include <cstddef>
#include <vector>

namespace nd::floors {

struct Plan {
  std::size_t size = 8;  // Bytes of a message; a multiple of 8.
  int cpu = 0, peer_cpu = 1;
  double seconds = 0.1;
};

struct Value {
  const char* unit;  // "us", "gbytes_per_s" or "per_s"
  double value;
};
using Values = std::vector<Value>;

// memory.cc: two processes that share memory and poll. Latencies are half a round trip.
Values PingPong(const Plan& plan);  // One cache line for each direction.
Values Write(const Plan& plan);     // The peer watches the last 8 bytes and reads no others.
Values Ring(const Plan& plan);      // The sender copies into a slot, the receiver copies it out.
Values Rate(const Plan& plan);      // Messages of 8 bytes in slots of one cache line, in one direction.
Values Crossing(const Plan& plan);  // The sender copies into a window, the receiver reads every byte.

// copy.cc: one process copies.
Values Memcpy(const Plan& plan);
Values VmWrite(const Plan& plan);  // process_vm_writev into a sleeping process.

// sockets.cc
Values TcpLatency(const Plan& plan);    // Both ends poll the socket.
Values TcpBandwidth(const Plan& plan);  // Both ends block.
Values UnixLatency(const Plan& plan);   // A stream socket; both ends poll it.

// wake.cc: both ends sleep.
Values Eventfd(const Plan& plan);  // Half a round trip.
Values Call(const Plan& plan);     // A request and its answer over SOCK_SEQPACKET.

// setup.cc: a connection as a broker must make it: the messages and descriptors, and nothing else.
Values SetupLocal(const Plan& plan);
Values SetupTcp(const Plan& plan);

}  // namespace nd::floors
