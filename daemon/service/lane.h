// SPDX-License-Identifier: Apache-2.0
// One client's fd lane: descriptors go out, acknowledgements come in, and its hang-up is the client's death.
//
// The client is hostile: whatever it sends that is not exactly the acknowledgement of something sent ends the
// lane, descriptors it sends are dropped by the kernel, and one that does not acknowledge within a second is
// given up, because descriptors in flight count against everybody. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "daemon/service/peer.h"
#include "nd/status.h"

namespace nd::service {

inline constexpr std::size_t kMaxUnacknowledged = 4;
inline constexpr Duration kAckTimeout = std::chrono::seconds(1);

class Lane {
 public:
  struct Callbacks {
    std::function<void()> room;                         // Send() may succeed again.
    std::function<void(const std::string& why)> ended;  // Once; Close() was called already.
  };

  Lane(EventLoop& loop, UniqueFd socket, const Peer& peer, Callbacks callbacks);
  ~Lane();

  // False: the kernel refuses to watch the socket.
  bool Open();
  // The record without descriptors that starts the lane; not acknowledged.
  Status SendPlain(std::span<const std::byte> record);
  // `id` is what the acknowledgement will name. SUCCESS: sent, the caller closes its descriptors now.
  // DEVICE_BUSY: not now; `room` will be called. Anything else: the lane is broken.
  Status Send(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds);
  // Stops listening and hangs up; no callback afterwards.
  void Close();

  const Peer& peer() const { return peer_; }
  std::size_t unacknowledged() const { return sent_.size(); }

 private:
  using RealTime = std::chrono::steady_clock::time_point;
  void OnSocket();
  void OnDatagram(std::span<const std::byte> datagram);
  void OnAckDeadline();
  void ArmAckTimer();
  void RetryLater();
  void End(const std::string& why);

  EventLoop& loop_;
  UniqueFd socket_, process_;
  const Peer peer_;
  Callbacks callbacks_;
  // In real time: a test that skips the clock does not make the client late.
  std::map<std::uint64_t, RealTime> sent_;
  std::optional<RealTime> blocked_since_;
  std::optional<EventLoop::TimerId> ack_timer_, retry_timer_;
  bool closed_ = true;
};

}  // namespace nd::service
