// SPDX-License-Identifier: Apache-2.0
// Benchmarks of the data path: two processes, one per core, no broker. ./qp_bench prints one line for each.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <thread>

#include "provider/soft/qp/testing.h"

namespace nd::provider::soft {
namespace {

constexpr std::size_t kArea = 4 << 20;

struct Card {
  std::uint64_t address;
  std::uint32_t token;
};

void Pin(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void Take(End& end, RequestType type) {
  Completion done;
  for (;;) {
    if (end.cq->Poll({&done, 1}) == 0) continue;
    if (done.status != StatusCode::kSuccess) {
      std::fprintf(stderr, "failed: %s\n", std::string(Name(done.status)).c_str());
      _exit(1);
    }
    if (done.type == type) return;
  }
}

void SendPingPong(End& end, Memory& m, bool first, std::size_t size, int rounds) {
  Sge out = m.At(0, size), in = m.At(kArea / 2, size);
  double start = 0;
  for (int i = 0; i < rounds + rounds / 10; ++i) {
    if (i == rounds / 10) start = Now();
    if (!first) Take(end, RequestType::kReceive);
    (void)end.qp->Receive(nullptr, {&in, 1});
    (void)end.qp->Send(nullptr, {&out, 1}, kOpSilentSuccess);
    if (first) Take(end, RequestType::kReceive);
  }
  if (first)
    std::printf("  send %6zu B half round trip %8.3f us\n", size, (Now() - start) / rounds / 2 * 1e6);
}

void WritePingPong(End& end, Memory& m, const Card& peer, bool first, std::size_t size, int rounds) {
  auto* flag = reinterpret_cast<std::atomic<std::uint64_t>*>(m.data + kArea / 2 + size - 8);
  auto* mine = reinterpret_cast<std::uint64_t*>(m.data + size - 8);
  Sge out = m.At(0, size);
  Completion done;
  double start = 0;
  const auto measured = static_cast<std::uint64_t>(rounds), warmup = measured / 10;
  for (std::uint64_t i = 1; i <= measured + warmup; ++i) {
    if (i == warmup) start = Now();
    const auto wait = [&] {
      while (flag->load(std::memory_order_acquire) != i) end.cq->Poll({&done, 1});
    };
    if (!first) wait();
    *mine = i;
    (void)end.qp->Write(nullptr, {&out, 1}, peer.address + kArea / 2, peer.token, 0);
    Take(end, RequestType::kWrite);
    if (first) wait();
  }
  if (first)
    std::printf("  write%6zu B half round trip %8.3f us\n", size, (Now() - start) / rounds / 2 * 1e6);
  flag->store(0);
}

void Stream(End& end, Memory& m, const Card& peer, bool first, RequestType type, std::size_t size,
            int count) {
  constexpr int kWindow = 32;
  Sge out = m.At(0, size), in = m.At(kArea / 2, size);
  if (first) {
    const double start = Now();
    int posted = 0;
    for (int finished = 0; finished < count;) {
      while (posted < count && posted - finished < kWindow) {
        (void)(type == RequestType::kSend ? end.qp->Send(nullptr, {&out, 1}, 0)
               : type == RequestType::kWrite
                   ? end.qp->Write(nullptr, {&out, 1}, peer.address + kArea / 2, peer.token, 0)
                   : end.qp->Read(nullptr, {&out, 1}, peer.address + kArea / 2, peer.token, 0));
        ++posted;
      }
      Take(end, type);
      ++finished;
    }
    const double took = Now() - start;
    std::printf("  %s %7zu B stream %8.3f GB/s %8.3f M/s\n",
                type == RequestType::kSend    ? "send "
                : type == RequestType::kWrite ? "write"
                                              : "read ",
                size, static_cast<double>(size) * count / took / 1e9, count / took / 1e6);
    (void)end.qp->Send(nullptr, {}, kOpSilentSuccess);
    return;
  }
  for (int i = 0; i < 128; ++i) (void)end.qp->Receive(nullptr, {&in, 1});
  // One more receive, for the closing message of the other side.
  const int expect = (type == RequestType::kSend ? count : 0) + 1;
  for (int i = 0; i < expect; ++i) {
    Take(end, RequestType::kReceive);
    if (i + 128 < expect) (void)end.qp->Receive(nullptr, {&in, 1});
  }
  (void)end.qp->Flush();
  Completion done;
  while (end.cq->Poll({&done, 1}) != 0) {
  }
}

void Run(Link link, bool first, HandOff hand_off, int pipe_in, int pipe_out) {
  Pin(first ? 0 : 1);
  Tuning tuning;
  tuning.rnr_timeout = std::chrono::seconds(20);
  End end(tuning);
  Memory m(end, kArea, true);
  m.Fill(1);
  std::memset(m.data + kArea / 2, 0, kArea / 2);
  if (!end.qp->Attach(std::move(hand_off)).ok()) _exit(1);
  Card mine{m.Address(), m.token()}, peer{};
  if (write(pipe_out, &mine, sizeof mine) != sizeof mine || read(pipe_in, &peer, sizeof peer) != sizeof peer)
    _exit(1);
  Sge in = m.At(kArea / 2, kArea / 2);
  const bool shared = link == Link::kShared;
  const auto meet = [&] {
    char c = 0;
    if (write(pipe_out, &c, 1) != 1 || read(pipe_in, &c, 1) != 1) _exit(1);
  };
  for (std::size_t size : {8u, 64u, 4096u, 65536u}) {
    if (first) (void)end.qp->Receive(nullptr, {&in, 1});
    if (!first) (void)end.qp->Receive(nullptr, {&in, 1});
    meet();
    SendPingPong(end, m, first, size, size > 4096 ? 5000 : shared ? 300000 : 20000);
    meet();
    (void)end.qp->Flush();
    Completion done;
    while (end.cq->Poll({&done, 1}) != 0) {
    }
    std::memset(m.data + kArea / 2, 0, 65536);
    meet();
    WritePingPong(end, m, peer, first, size, size > 4096 ? 5000 : shared ? 300000 : 20000);
    meet();
  }
  for (RequestType type : {RequestType::kSend, RequestType::kWrite, RequestType::kRead}) {
    for (std::size_t size : {8u, 65536u, 1u << 20}) {
      meet();
      Stream(end, m, peer, first, type, size,
             size == 8       ? (shared ? 2000000 : 200000)
             : size == 65536 ? 40000
                             : 3000);
      meet();
    }
  }
}

}  // namespace
}  // namespace nd::provider::soft

int main() {
  using namespace nd::provider::soft;
  for (Link link : {Link::kShared, Link::kIwarp}) {
    std::printf("%s\n", NameOf(link));
    std::fflush(stdout);
    HandOffs both = MakeHandOffs(link);
    int down[2], up[2];
    if (pipe(down) != 0 || pipe(up) != 0) return 1;
    const pid_t child = fork();
    if (child == 0) {
      both.active.fds.clear();
      Run(link, false, std::move(both.passive), down[0], up[1]);
      _exit(0);
    }
    both.passive.fds.clear();
    Run(link, true, std::move(both.active), up[0], down[1]);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) return 1;
  }
  return 0;
}
