// SPDX-License-Identifier: Apache-2.0
// The thread that reads datagrams for programs that wait for an event of their completion queue. It starts
// with the first such wait, and sleeps in an epoll set. A program that polls never needs it.
#pragma once

#include <cstdint>

namespace nd::verbs_lib {

// At the next datagram of `fd` the thread drives the UD queue pair `number` once, and again while its receive
// queue waits for an event. `known`: the thread has seen `fd` before. Returns true when the thread knows it
// now.
bool WatchDatagrams(int fd, std::uint32_t number, bool known);

}  // namespace nd::verbs_lib
