// SPDX-License-Identifier: Apache-2.0
// The only place of the broker that talks to a client's SEQPACKET socket.
#include "daemon/service/lane.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fd_lane.h"
#include "provider/hand_off.h"

namespace nd::service {

using provider::AckRecord;
using std::chrono::steady_clock;

namespace {

constexpr std::size_t kMemoryKept = 4096;  // Of each client, for its next messages.

}  // namespace

Lane::Lane(EventLoop& loop, UniqueFd socket, const Peer& peer, Callbacks callbacks)
    : loop_(loop), socket_(std::move(socket)), peer_(peer), callbacks_(std::move(callbacks)) {}

Lane::~Lane() {
  Close();
}

bool Lane::Open() {
  if (!loop_.Add(socket_.get(), EPOLLIN | EPOLLRDHUP, [this](std::uint32_t events) { OnSocket(events); })) {
    return false;
  }
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
  if (!unsaid_.empty()) return {StatusCode::kDeviceBusy, "messages wait to be sent before it"};
  Status status = SendWithFds(socket_.get(), record, fds);
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
  // Its acknowledgements may wait behind what we do not read.
  if (deaf()) {
    for (auto& [id, when] : sent_) when = now;
  }
  const bool late = std::any_of(sent_.begin(), sent_.end(),
                                [&](const auto& entry) { return now - entry.second >= kAckTimeout; });
  if (late) return End("it did not acknowledge a hand-over within a second");
  ArmAckTimer();
}

bool Lane::Say(std::span<const std::byte> message, std::size_t bound) {
  if (closed_) return true;  // Nobody is there to be told.
  const auto length = static_cast<std::uint32_t>(message.size());
  if (unsaid_bytes_ != 0 && unsaid_bytes_ + out_.size() + sizeof length + length > bound) return false;
  bound_ = bound;
  if (!out_.empty() && out_.size() + sizeof length + length > provider::kMaxServerDatagram) SendCorked();
  const auto append = [this](const void* bytes, std::size_t size) {
    const auto* from = static_cast<const std::byte*>(bytes);
    out_.insert(out_.end(), from, from + size);
  };
  if (out_.empty()) {
    const provider::MessageRecord record;
    append(&record, sizeof record);
  }
  append(&length, sizeof length);
  append(message.data(), message.size());
  if (!corked_) SendCorked();
  return true;
}

void Lane::SendCorked() {
  if (out_.empty()) return;
  if (unsaid_.empty()) {
    const Status status = SendWithFds(socket_.get(), out_, {});
    // One that is gone is noticed by its hang-up.
    if (!(status == StatusCode::kDeviceBusy)) {
      if (out_.capacity() > kMemoryKept) out_ = {};
      return out_.clear();
    }
  }
  unsaid_bytes_ += out_.size();
  unsaid_.push_back(std::exchange(out_, {}));
  behind_ = behind_ || unsaid_bytes_ > bound_ / 2;
  if (unsaid_.size() == 1) {
    patience_timer_ =
        loop_.At(loop_.clock().Now() + kReaderPatience, [this, said = said_] { OnPatienceOver(said); });
  }
  Watch();
}

void Lane::OnWritable() {
  while (!unsaid_.empty()) {
    if (SendWithFds(socket_.get(), unsaid_.front(), {}) == StatusCode::kDeviceBusy) break;
    unsaid_bytes_ -= unsaid_.front().size();
    unsaid_.pop_front();
    ++said_;
  }
  if (unsaid_.empty()) {
    loop_.Cancel(*patience_timer_);
    patience_timer_.reset();
  }
  behind_ = behind_ && unsaid_bytes_ > bound_ / 4;
  Watch();
  if (unsaid_.empty()) callbacks_.room();
}

void Lane::OnPatienceOver(std::uint64_t said) {
  if (said == said_) return End("the client does not read its messages");
  patience_timer_ =
      loop_.At(loop_.clock().Now() + kReaderPatience, [this, now = said_] { OnPatienceOver(now); });
}

void Lane::Listen(bool on) {
  muted_ = !on;
  if (!closed_) Watch();
}

void Lane::Watch() {
  loop_.Modify(socket_.get(), (deaf() ? 0u : EPOLLIN) | EPOLLRDHUP | (unsaid_.empty() ? 0u : EPOLLOUT));
}

void Lane::OnSocket(std::uint32_t events) {
  if ((events & EPOLLOUT) != 0 && !unsaid_.empty()) OnWritable();
  if (closed_) return;
  if (deaf()) {
    // What it said before it hung up goes with it.
    if ((events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0) End("it hung up");
    return;
  }
  corked_ = true;
  Read();
  corked_ = false;
  if (!closed_) SendCorked();
}

void Lane::Read() {
  // One client's turn: others wait.
  constexpr int kMessages = 16;
  constexpr std::size_t kBytes = 64 * 1024;
  static thread_local std::array<std::byte, provider::kMaxClientDatagram> buffer;
  std::size_t bytes = 0;
  for (int i = 0; i < kMessages && bytes < kBytes && !closed_ && !deaf(); ++i) {
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
    if ((message.msg_flags & MSG_TRUNC) != 0) return End("it sent a datagram that is too long");
    bytes += static_cast<std::size_t>(n);
    OnDatagram(std::span(buffer).first(static_cast<std::size_t>(n)));
  }
}

void Lane::OnDatagram(std::span<const std::byte> datagram) {
  provider::MessageRecord record;
  if (datagram.size() < sizeof record) return OnAck(datagram);
  std::memcpy(&record, datagram.data(), sizeof record);
  if (record.magic != provider::MessageRecord::kMagic) return OnAck(datagram);
  const provider::MessageRecord right;
  if (record.version != right.version || record.size != right.size) {
    return End("it sent a message of another version");
  }
  // One: a client's turn is counted in messages.
  std::uint32_t length = 0;
  datagram = datagram.subspan(sizeof record);
  if (datagram.size() < sizeof length) return End("it sent a message without its length");
  std::memcpy(&length, datagram.data(), sizeof length);
  datagram = datagram.subspan(sizeof length);
  if (length != datagram.size()) return End("it sent a message of another length than it says");
  callbacks_.message(datagram);
}

void Lane::OnAck(std::span<const std::byte> datagram) {
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
  // The last words, if nothing is before them.
  if (!out_.empty() && unsaid_.empty()) static_cast<void>(SendWithFds(socket_.get(), out_, {}));
  closed_ = true;
  if (ack_timer_) loop_.Cancel(*ack_timer_);
  if (retry_timer_) loop_.Cancel(*retry_timer_);
  if (patience_timer_) loop_.Cancel(*patience_timer_);
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
