// SPDX-License-Identifier: Apache-2.0
#include <poll.h>

#include <array>
#include <chrono>
#include <vector>

#include "base/os/wait.h"

namespace nd::os {

static_assert(kReadable == POLLIN && kWritable == POLLOUT && kFailed == POLLERR && kHungUp == POLLHUP &&
              kPeerFinished == POLLRDHUP);

int Wait(std::span<Watched> entries, Duration timeout) {
  std::array<pollfd, 8> few;
  std::vector<pollfd> many;
  if (entries.size() > few.size()) many.resize(entries.size());
  pollfd* const fds = many.empty() ? few.data() : many.data();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    fds[i] = {entries[i].fd, static_cast<short>(entries[i].wanted), 0};
  }
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
  const timespec limit{static_cast<time_t>(seconds.count()), static_cast<long>((timeout - seconds).count())};
  const int ready = ::ppoll(fds, entries.size(), timeout < Duration() ? nullptr : &limit, nullptr);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    entries[i].ready = ready > 0 ? static_cast<std::uint32_t>(fds[i].revents) : 0;
  }
  return ready;
}

}  // namespace nd::os
