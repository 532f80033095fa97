// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/datagram_thread.h"

#include <sys/epoll.h>

#include <array>
#include <cerrno>

#include "base/os/thread.h"
#include "verbs-lib/datagram_pair.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {
namespace {

// The number of datagrams that one wake-up takes before it looks whether the program was told.
constexpr int kAtOnce = 16;

void Run(void* argument) {
  const int set = static_cast<int>(reinterpret_cast<std::intptr_t>(argument));
  std::array<epoll_event, 16> ready;
  for (;;) {
    const int count = epoll_wait(set, ready.data(), static_cast<int>(ready.size()), -1);
    if (count < 0 && errno != EINTR) return;
    for (int i = 0; i < count; ++i) {
      // The queue pair's memory stays until this turn is over, even if the program destroys the queue pair.
      const auto queue_pair = FindQueuePair(ready[static_cast<std::size_t>(i)].data.u32);
      if (queue_pair && queue_pair->datagrams) queue_pair->datagrams->Serve(kAtOnce);
    }
  }
}

// The epoll set of the thread, or -1.
int Start() {
  const int set = epoll_create1(EPOLL_CLOEXEC);
  if (set < 0) return -1;
  if (!os::StartLastingThread("ndbroker-ud", Run, reinterpret_cast<void*>(static_cast<std::intptr_t>(set)))) {
    return -1;
  }
  return set;
}

}  // namespace

bool WatchDatagrams(int fd, std::uint32_t number, bool known) {
  static const int set = Start();
  epoll_event event{};
  event.events = EPOLLIN | EPOLLONESHOT;
  event.data.u32 = number;
  return epoll_ctl(set, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace nd::verbs_lib
