// SPDX-License-Identifier: Apache-2.0
// Two processes that sleep and wake each other.
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/floors/channel.h"
#include "tests/bench/floors/floor.h"
#include "tests/bench/floors/tools.h"

namespace nd::floors {
namespace {

void Wake(int fd) {
  const std::uint64_t one = 1;
  Must(write(fd, &one, sizeof(one)), "eventfd");
}

void Sleep(int fd) {
  std::uint64_t count = 0;
  Must(read(fd, &count, sizeof(count)), "eventfd");
}

}  // namespace

Values Eventfd(const Plan& plan) {
  const int there = static_cast<int>(Must(eventfd(0, EFD_CLOEXEC), "eventfd"));
  const int back = static_cast<int>(Must(eventfd(0, EFD_CLOEXEC), "eventfd"));
  const Peer peer(plan.peer_cpu, [&] {
    for (;;) {
      Sleep(there);
      Wake(back);
    }
  });
  PinTo(plan.cpu);
  const double seconds = MedianOfBatches(plan, 1, [&] {
    Wake(there);
    Sleep(back);
  });
  return {{"us", seconds / 2 * 1e6}};
}

Values Call(const Plan& plan) {
  const SocketPair sockets(SOCK_SEQPACKET);
  std::vector<int> none;
  const Peer peer(plan.peer_cpu, [&] {
    close(sockets.ours);
    while (ReceiveMessage(sockets.theirs, &none)) SendMessage(sockets.theirs);
  });
  PinTo(plan.cpu);
  const double seconds = MedianOfBatches(plan, 1, [&] {
    SendMessage(sockets.ours);
    if (!ReceiveMessage(sockets.ours, &none)) Die("the peer ended");
  });
  return {{"us", seconds * 1e6}};
}

}  // namespace nd::floors
