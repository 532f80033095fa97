// SPDX-License-Identifier: Apache-2.0
// The only place of the broker that talks to a client's SEQPACKET socket.
#include "daemon/service/lane.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "base/fd_lane.h"
#include "provider/hand_off.h"

namespace nd::service {

using provider::AckRecord;
using std::chrono::steady_clock;

Lane::Lane(EventLoop& loop, UniqueFd socket, const Peer& peer, Callbacks callbacks)
    : loop_(loop), socket_(std::move(socket)), peer_(peer), callbacks_(std::move(callbacks)) {}

Lane::~Lane() {
  Close();
}

bool Lane::Open() {
  if (!loop_.Add(socket_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t) { OnSocket(); })) return false;
  closed_ = false;
  // A forked child may keep the socket open; the process itself is what matters.
  process_ = ProcessHandle(socket_.get(), peer_.pid);
  if (process_ && !loop_.Add(process_.get(), EPOLLIN, [this](std::uint32_t) { End("its process ended"); })) {
    process_.reset();
  }
  return true;
}

Status Lane::SendPlain(std::span<const std::byte> record) {
  return SendWithFds(socket_.get(), record, {});
}

Status Lane::Send(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds) {
  if (closed_) return {StatusCode::kConnectionDisconnected, "the fd lane is closed"};
  if (sent_.size() >= kMaxUnacknowledged)
    return {StatusCode::kDeviceBusy, "too many unacknowledged hand-overs"};
  const Status status = SendWithFds(socket_.get(), record, fds);
  if (status.ok()) {
    blocked_since_.reset();
    sent_.emplace(id, steady_clock::now());
    if (!ack_timer_) ArmAckTimer();
    return status;
  }
  if (status == StatusCode::kDeviceBusy) {
    if (!blocked_since_) blocked_since_ = steady_clock::now();
    if (steady_clock::now() - *blocked_since_ > kAckTimeout) {
      return {StatusCode::kIoTimeout, "the fd lane could not take a message for a second"};
    }
    RetryLater();
  }
  return status;
}

void Lane::RetryLater() {
  // "Too many descriptors in flight" is nothing that epoll tells.
  if (retry_timer_) return;
  retry_timer_ = loop_.At(loop_.clock().Now() + std::chrono::milliseconds(2), [this] {
    retry_timer_.reset();
    callbacks_.room();
  });
}

void Lane::ArmAckTimer() {
  RealTime oldest = RealTime::max();
  for (const auto& [id, when] : sent_) oldest = std::min(oldest, when);
  const Duration left = std::max<Duration>(oldest + kAckTimeout - steady_clock::now(), Duration::zero());
  ack_timer_ = loop_.At(loop_.clock().Now() + left, [this] {
    ack_timer_.reset();
    OnAckDeadline();
  });
}

void Lane::OnAckDeadline() {
  if (sent_.empty()) return;
  const RealTime now = steady_clock::now();
  const bool late = std::any_of(sent_.begin(), sent_.end(),
                                [&](const auto& entry) { return now - entry.second >= kAckTimeout; });
  if (late) return End("it did not acknowledge a hand-over within a second");
  ArmAckTimer();
}

void Lane::OnSocket() {
  constexpr int kPerRound = 16;
  for (int i = 0; i < kPerRound && !closed_; ++i) {
    std::array<std::byte, sizeof(AckRecord) + 1> buffer;
    iovec part{buffer.data(), buffer.size()};
    msghdr message{};  // No room for control data: the kernel discards descriptors.
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    const ssize_t n = ::recvmsg(socket_.get(), &message, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (n <= 0) return End(n == 0 ? "it hung up" : std::string("its socket failed: ") + std::strerror(errno));
    if ((message.msg_flags & MSG_CTRUNC) != 0)
      return End("it sent descriptors, which the broker never takes");
    OnDatagram(std::span(buffer).first(static_cast<std::size_t>(n)));
  }
}

void Lane::OnDatagram(std::span<const std::byte> datagram) {
  AckRecord ack;
  if (datagram.size() != sizeof ack) return End("it sent a datagram that is no acknowledgement");
  std::memcpy(&ack, datagram.data(), sizeof ack);
  const AckRecord right;
  if (ack.magic != right.magic || ack.version != right.version || ack.size != right.size) {
    return End("it sent a datagram that is no acknowledgement");
  }
  if (sent_.erase(ack.id) == 0) return End("it acknowledged a hand-over that is not outstanding");
  if (sent_.empty() && ack_timer_) {
    loop_.Cancel(*ack_timer_);
    ack_timer_.reset();
  }
  callbacks_.room();
}

void Lane::Close() {
  if (closed_) return;
  closed_ = true;
  if (ack_timer_) loop_.Cancel(*ack_timer_);
  if (retry_timer_) loop_.Cancel(*retry_timer_);
  loop_.Remove(socket_.get());
  if (process_) loop_.Remove(process_.get());
  process_.reset();
  socket_.reset();
}

void Lane::End(const std::string& why) {
  Close();
  callbacks_.ended(why);
}

}  // namespace nd::service
