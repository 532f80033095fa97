// SPDX-License-Identifier: Apache-2.0
#include "base/os/watch_set.h"

#include <sys/epoll.h>

#include <algorithm>
#include <chrono>

namespace nd::os {
namespace {

constexpr std::chrono::hours kLongest{1};

static_assert(kReadable == EPOLLIN && kWritable == EPOLLOUT && kFailed == EPOLLERR && kHungUp == EPOLLHUP &&
              kPeerFinished == EPOLLRDHUP);

bool Control(int set, int operation, int fd, std::uint32_t wanted, std::uint64_t tag, WatchSet::Until until) {
  epoll_event event{};
  event.events = wanted | (until == WatchSet::Until::kReported ? EPOLLONESHOT : 0u);
  event.data.u64 = tag;
  return ::epoll_ctl(set, operation, fd, &event) == 0;
}

int EpollTimeout(Duration timeout) {
  if (timeout < Duration::zero()) return -1;
  return static_cast<int>(
      std::chrono::ceil<std::chrono::milliseconds>(std::min<Duration>(timeout, kLongest)).count());
}

}  // namespace

WatchSet::WatchSet() : fd_(::epoll_create1(EPOLL_CLOEXEC)) {}

bool WatchSet::Add(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  return Control(fd_.get(), EPOLL_CTL_ADD, fd, wanted, tag, until);
}

bool WatchSet::Change(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  return Control(fd_.get(), EPOLL_CTL_MOD, fd, wanted, tag, until);
}

void WatchSet::Remove(int fd) {
  ::epoll_ctl(fd_.get(), EPOLL_CTL_DEL, fd, nullptr);
}

std::size_t WatchSet::Take(std::span<Ready> out, Duration timeout) const {
  epoll_event events[kMostReady];
  const int count = ::epoll_wait(fd_.get(), events, static_cast<int>(std::min(out.size(), kMostReady)),
                                 EpollTimeout(timeout));
  for (int i = 0; i < count; ++i) {
    out[static_cast<std::size_t>(i)] = {events[i].data.u64, events[i].events};
  }
  return static_cast<std::size_t>(std::max(count, 0));
}

}  // namespace nd::os
