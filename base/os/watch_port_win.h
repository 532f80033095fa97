// SPDX-License-Identifier: Apache-2.0
// Watched descriptors on one completion port. A socket is asked through the AFD driver, which completes a
// poll request when the socket is ready; of every other kind the signals are waited for by the thread pool,
// which posts to the port.
//
// One request is outstanding for each watched descriptor. It reports once. Take() makes the next one for the
// descriptors that it reported before, so that a condition that lasts is reported again. Any thread.
#pragma once

#include "base/os/object_win.h"
#include "base/os/watch_set.h"

namespace nd::os {

class WatchPort final : public Object {
 public:
  static constexpr Kind kKind = Kind::kWatchSet;
  using Until = WatchSet::Until;

  // Null with errno set: the system refuses.
  static std::shared_ptr<WatchPort> Make();
  ~WatchPort() override;

  bool Add(int fd, std::uint32_t wanted, std::uint64_t tag, Until until);
  bool Change(int fd, std::uint32_t wanted, std::uint64_t tag, Until until);
  void Remove(int fd);
  // As WatchSet::Take().
  std::size_t Take(std::span<WatchSet::Ready> out, Duration timeout);

  // As a watched descriptor of another set: readable while one of its own is ready. What the driver has
  // reported of a socket counts until Take().
  std::uint32_t Ready() override;
  int Signals(std::uint32_t wanted, HANDLE (&handles)[2]) override;

 private:
  friend std::shared_ptr<Object> CloseDescriptor(int fd);
  struct Parts;
  explicit WatchPort(std::unique_ptr<Parts> parts);
  const std::unique_ptr<Parts> parts_;
};

// Frees the number, and no set watches the descriptor any more; in one step, so that no thread adds a watch
// of either the old or the next object of the number in between. The object, whose end can wait for the
// watches of others, ends with the result.
std::shared_ptr<Object> CloseDescriptor(int fd);

}  // namespace nd::os
