// SPDX-License-Identifier: Apache-2.0
// One epoll descriptor for the handles of the library: the event loop of a program that has others too.
#pragma once

#include <sys/epoll.h>

#include <initializer_list>

class Sleeper {
 public:
  explicit Sleeper(std::initializer_list<int> handles) {
    epoll_event event{.events = EPOLLIN, .data = {}};
    for (const int handle : handles) epoll_ctl(events_, EPOLL_CTL_ADD, handle, &event);
  }
  // Returns when a handle is readable.
  void Sleep() const {
    epoll_event event;
    epoll_wait(events_, &event, 1, -1);
  }

 private:
  const int events_ = epoll_create1(EPOLL_CLOEXEC);
};
