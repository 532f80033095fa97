// SPDX-License-Identifier: Apache-2.0
// Closes descriptors whose close a client can delay: a socket that the client shares (SO_LINGER and a peer
// that does not read), the channel of a device.
//
// A thread of its own closes them, one user after the other. A close that takes longer than kLongestClose is
// interrupted; the kernel then finishes it. A user with too many waiting descriptors gets no more (HasRoom).
// Any thread; no call blocks.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "daemon/service/slow_close.h"

namespace nd::service {

class Reaper {
 public:
  static constexpr Duration kLongestClose = std::chrono::milliseconds(20);
  // The longest wait of the destructor. Remaining descriptors stay open until the process ends; the kernel
  // then closes sockets without waiting.
  static constexpr Duration kPatience = std::chrono::milliseconds(200);
  static constexpr std::size_t kMostOfUser = 256, kMost = 4096;  // Waiting descriptors.

  // `prepare` is called for each descriptor before it is closed.
  explicit Reaper(std::function<void(int fd)> prepare = ResetInsteadOfLingering);
  ~Reaper();
  Reaper(const Reaper&) = delete;
  Reaper& operator=(const Reaper&) = delete;

  // Returns whether this user may receive further descriptors that have to be closed here later.
  bool HasRoom(std::uint32_t uid) const;
  void Close(std::uint32_t uid, std::vector<UniqueFd> fds);

  struct State {
    std::size_t waiting = 0;
    std::uint64_t closed = 0;
    std::uint64_t interrupted = 0;  // The number of closes that took longer than kLongestClose.
  };
  State state() const;

 private:
  void Run();
  // Takes the next descriptor, from the user whose turn it is.
  UniqueFd TakeNext();

  const std::function<void(int fd)> prepare_;
  mutable std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::map<std::uint32_t, std::deque<UniqueFd>> waiting_;  // By user; no list is empty.
  std::uint32_t last_user_ = 0;
  State state_;
  bool stop_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace nd::service
