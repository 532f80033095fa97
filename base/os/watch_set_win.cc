// SPDX-License-Identifier: Apache-2.0
#include "base/os/watch_set.h"

#include "base/os/watch_port_win.h"

namespace nd::os {

WatchSet::WatchSet() {
  if (auto port = WatchPort::Make()) fd_.reset(PutObject(std::move(port)));
}

bool WatchSet::Add(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  const auto port = FindAs<WatchPort>(fd_.get());
  return port && port->Add(fd, wanted, tag, until);
}

bool WatchSet::Change(int fd, std::uint32_t wanted, std::uint64_t tag, Until until) {
  const auto port = FindAs<WatchPort>(fd_.get());
  return port && port->Change(fd, wanted, tag, until);
}

void WatchSet::Remove(int fd) {
  if (const auto port = FindAs<WatchPort>(fd_.get())) port->Remove(fd);
}

std::size_t WatchSet::Take(std::span<Ready> out, Duration timeout) const {
  const auto port = FindAs<WatchPort>(fd_.get());
  return port ? port->Take(out, timeout) : 0;
}

}  // namespace nd::os
