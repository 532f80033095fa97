// SPDX-License-Identifier: Apache-2.0
// One client's fd lane: descriptors go out, acknowledgements come in, messages go both ways when the session
// is held here, and its hang-up is the client's death.
//
// The client is hostile: whatever it sends that is neither a message nor exactly the acknowledgement of
// something sent ends the lane, descriptors it sends are dropped by the kernel, and one that does not
// acknowledge within a second is given up, because descriptors in flight count against everybody. Loop
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "daemon/service/peer.h"
#include "nd/status.h"

namespace nd::service {

inline constexpr std::size_t kMaxUnacknowledged = 4;
inline constexpr Duration kAckTimeout = std::chrono::seconds(1);
// A client whose messages pile up is not read from until it takes some; one that takes none so long is gone.
inline constexpr Duration kReaderPatience = std::chrono::seconds(5);

class Lane {
 public:
  struct Callbacks {
    std::function<void()> room;                         // Send() may succeed again.
    std::function<void(const std::string& why)> ended;  // Once; Close() was called already.
    // One message that the client said. It may end the lane.
    std::function<void(std::span<const std::byte>)> message = {};
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
  // A message of at most kMaxServerMessage bytes: sent now, or with others when what the client said has been
  // heard, or in order as soon as the socket takes it. False: more than `bound` bytes would wait. While half
  // of that waits the client is not read from.
  bool Say(std::span<const std::byte> message, std::size_t bound);
  // Whether the client is read from; it is at first.
  void Listen(bool on);
  // Stops listening and hangs up; no callback afterwards.
  void Close();

  const Peer& peer() const { return peer_; }
  std::size_t unacknowledged() const { return sent_.size(); }

 private:
  using RealTime = std::chrono::steady_clock::time_point;
  void OnSocket(std::uint32_t events);
  void Read();
  void OnDatagram(std::span<const std::byte> datagram);
  void OnAck(std::span<const std::byte> datagram);
  void SendCorked();
  void OnWritable();
  void OnPatienceOver(std::uint64_t said);
  bool deaf() const { return muted_ || behind_; }
  void Watch();
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
  std::optional<EventLoop::TimerId> ack_timer_, retry_timer_, patience_timer_;
  bool corked_ = false;
  std::vector<std::byte> out_;  // The datagram that is being filled.
  std::deque<std::vector<std::byte>> unsaid_;
  std::size_t unsaid_bytes_ = 0, bound_ = 0;
  std::uint64_t said_ = 0;  // Datagrams of unsaid_ that left.
  bool muted_ = false;      // By Listen().
  bool behind_ = false;     // Too much is unsaid.
  bool closed_ = true;
};

}  // namespace nd::service
