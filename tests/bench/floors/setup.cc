// SPDX-License-Identifier: Apache-2.0
// Connections made by processes that behave like a broker and its applications as seen by the kernel: they
// send the messages, descriptors and packets that a connection needs, and do nothing with their contents.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/bench/floors/channel.h"
#include "tests/bench/floors/floor.h"
#include "tests/bench/floors/tools.h"

namespace nd::floors {
namespace {

constexpr std::size_t kQueues = 256U << 10;  // Bytes of the memory of a connection.
constexpr std::size_t kStartUp = 36;  // Bytes of an MPA request or reply with the private data of ndperf.

void CloseAll(const std::vector<int>& fds) {
  for (const int fd : fds) close(fd);
}

// An end maps the memory of the connection and writes to its first page.
void Map(int fd) {
  void* memory = mmap(nullptr, kQueues, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) Die("mmap");
  *static_cast<volatile char*>(memory) = 1;
  munmap(memory, kQueues);
}

// Receives the message that must come from a process of this floor.
std::vector<int> Expect(int fd) {
  std::vector<int> fds;
  if (!ReceiveMessage(fd, &fds)) Die("a process of the floor ended");
  return fds;
}

Values Repeat(const Plan& plan, const std::function<void()>& connect) {
  PinTo(plan.cpu);
  const double begin = Now();
  std::uint64_t count = 0;
  const double seconds = MedianOfBatches(plan, 1, [&] {
    connect();
    ++count;
  });
  return {{"us", seconds * 1e6}, {"per_s", static_cast<double>(count) / (Now() - begin)}};
}

}  // namespace

// Connect -> broker makes memory and two doorbells -> request to the listener -> Accept -> broker ->
// established.
Values SetupLocal(const Plan& plan) {
  const SocketPair active(SOCK_SEQPACKET), passive(SOCK_SEQPACKET);
  const Peer broker(plan.cpu, [&] {
    close(active.ours);
    close(passive.ours);
    std::vector<int> none;
    while (ReceiveMessage(active.theirs, &none)) {
      const int memory = static_cast<int>(Must(memfd_create("floor", MFD_CLOEXEC), "memfd_create"));
      Must(ftruncate(memory, kQueues), "ftruncate");
      const int there = static_cast<int>(Must(eventfd(0, EFD_CLOEXEC), "eventfd"));
      const int back = static_cast<int>(Must(eventfd(0, EFD_CLOEXEC), "eventfd"));
      SendMessage(passive.theirs, {memory, there, back});
      Expect(passive.theirs);
      SendMessage(active.theirs, {memory, there, back});
      CloseAll({memory, there, back});
    }
  });
  const Peer listener(plan.peer_cpu, [&] {
    close(passive.theirs);
    for (std::vector<int> fds; ReceiveMessage(passive.ours, &fds);) {
      Map(fds.at(0));
      SendMessage(passive.ours);
      CloseAll(fds);
    }
  });
  return Repeat(plan, [&] {
    SendMessage(active.ours);
    const std::vector<int> fds = Expect(active.ours);
    Map(fds.at(0));
    CloseAll(fds);
  });
}

// Connect -> the active side's broker connects and sends the MPA request -> the passive side's broker asks
// the listener -> Accept -> MPA reply. Each broker hands its socket to its application.
Values SetupTcp(const Plan& plan) {
  const SocketPair active(SOCK_SEQPACKET), passive(SOCK_SEQPACKET);
  sockaddr_in address;
  const int listening = Listen(&address);
  const Peer active_broker(plan.cpu, [&] {
    close(active.ours);
    std::vector<int> none;
    while (ReceiveMessage(active.theirs, &none)) {
      const int fd = Connect(address);
      char bytes[kStartUp] = {};
      SendAll(fd, bytes, sizeof(bytes), false);
      if (!ReceiveAll(fd, bytes, sizeof(bytes), false)) Die("no reply came");
      SendMessage(active.theirs, {fd});
      close(fd);
    }
  });
  const Peer passive_broker(plan.peer_cpu, [&] {
    close(passive.ours);
    for (;;) {
      const int fd = Accept(listening);
      char bytes[kStartUp];
      if (!ReceiveAll(fd, bytes, sizeof(bytes), false)) Die("no request came");
      SendMessage(passive.theirs);
      Expect(passive.theirs);
      SendAll(fd, bytes, sizeof(bytes), false);
      SendMessage(passive.theirs, {fd});
      close(fd);
    }
  });
  const Peer listener(plan.peer_cpu, [&] {
    close(passive.theirs);
    for (std::vector<int> fds; ReceiveMessage(passive.ours, &fds);) {
      SendMessage(passive.ours);
      CloseAll(Expect(passive.ours));
    }
  });
  return Repeat(plan, [&] {
    SendMessage(active.ours);
    const std::vector<int> fds = Expect(active.ours);
    // A reset, as the broker does it, leaves no socket in TIME_WAIT.
    const linger reset{1, 0};
    setsockopt(fds.at(0), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    CloseAll(fds);
  });
}

}  // namespace nd::floors
