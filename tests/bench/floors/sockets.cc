// SPDX-License-Identifier: Apache-2.0
// Bare sockets between two processes.
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/floors/channel.h"
#include "tests/bench/floors/floor.h"
#include "tests/bench/floors/tools.h"

namespace nd::floors {
namespace {

void Answer(int fd, std::size_t size) {
  std::vector<char> bytes(size);
  while (ReceiveAll(fd, bytes.data(), size, true)) SendAll(fd, bytes.data(), size, true);
}

Values Ask(int fd, const Plan& plan) {
  PinTo(plan.cpu);
  std::vector<char> bytes(plan.size, 1);
  const double seconds = MedianOfBatches(plan, 10, [&] {
    SendAll(fd, bytes.data(), plan.size, true);
    if (!ReceiveAll(fd, bytes.data(), plan.size, true)) Die("the peer ended");
  });
  return {{"us", seconds / 2 * 1e6}};
}

}  // namespace

Values TcpLatency(const Plan& plan) {
  sockaddr_in address;
  const int listener = Listen(&address);
  const Peer peer(plan.peer_cpu, [&] { Answer(Accept(listener), plan.size); });
  return Ask(Connect(address), plan);
}

Values UnixLatency(const Plan& plan) {
  const SocketPair sockets(SOCK_STREAM);
  const Peer peer(plan.peer_cpu, [&] {
    close(sockets.ours);
    Answer(sockets.theirs, plan.size);
  });
  return Ask(sockets.ours, plan);
}

Values TcpBandwidth(const Plan& plan) {
  sockaddr_in address;
  const int listener = Listen(&address);
  double& rate = Share<double>();
  Peer peer(plan.peer_cpu, [&] {
    const int fd = Accept(listener);
    // The receiver of a stream reads all that has arrived, whatever the size of the messages.
    std::vector<char> bytes(256U << 10);
    Periods periods;
    ssize_t received = 0;
    while ((received = recv(fd, bytes.data(), bytes.size(), 0)) > 0) {
      periods.Add(static_cast<double>(received));
    }
    rate = periods.PerSecond();
    SendAll(fd, "x", 1, false);
  });
  PinTo(plan.cpu);
  const int fd = Connect(address);
  const std::vector<char> bytes(plan.size, 1);
  const double end = Now() + plan.seconds;
  while (Now() < end) SendAll(fd, bytes.data(), bytes.size(), false);
  Must(shutdown(fd, SHUT_WR), "shutdown");
  char done = 0;
  if (!ReceiveAll(fd, &done, 1, false)) Die("the receiver ended");
  return {{"gbytes_per_s", rate / 1e9}};
}

}  // namespace nd::floors
