// SPDX-License-Identifier: Apache-2.0
// Sockets of the floors. Every failure ends the process, except the end of a connection.
#pragma once

#include <netinet/in.h>

#include <cstddef>
#include <initializer_list>
#include <vector>

namespace nd::floors {

// Two connected sockets of that type. They are closed with the process.
struct SocketPair {
  explicit SocketPair(int type);
  int ours, theirs;
};

// A TCP socket that listens on loopback; `address` is where.
int Listen(sockaddr_in* address);
int Connect(const sockaddr_in& address);
int Accept(int listener);
// Without delay and with the congestion control that a broker chooses: cubic or reno.
void SetTcpOptions(int fd);

// Sends all bytes. With `spin` it never sleeps.
void SendAll(int fd, const void* data, std::size_t length, bool spin);
// Receives that many bytes. Returns false when the connection ended.
bool ReceiveAll(int fd, void* data, std::size_t length, bool spin);

// One message of a SOCK_SEQPACKET socket with descriptors.
void SendMessage(int fd, std::initializer_list<int> descriptors = {});
// Returns false when the connection ended. The descriptors are the caller's.
bool ReceiveMessage(int fd, std::vector<int>* descriptors);

}  // namespace nd::floors
