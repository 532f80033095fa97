// SPDX-License-Identifier: Apache-2.0
// The only code of the broker that uses the SEQPACKET socket of a client.
#include "daemon/service/client_lane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/fd_lane.h"
#include "base/os/error_text.h"
#include "base/os/readiness.h"
#include "base/os/socket.h"
#include "provider/halves_record.h"
#include "provider/hand_off.h"
#include "provider/sockets_record.h"

namespace nd::service {

using provider::AckRecord;
using std::chrono::steady_clock;

namespace {

// This many reading turns read everything that a socket can hold, if each datagram has one message.
constexpr int kTurnsBeforeJudgement = 20;
constexpr std::size_t kMemoryKept = 4096;  // The capacity kept for the next messages of each client.

}  // namespace

ClientLane::ClientLane(EventLoop& loop, UniqueFd socket, const Peer& peer, Callbacks callbacks)
    : loop_(loop), socket_(std::move(socket)), peer_(peer), callbacks_(std::move(callbacks)) {}

ClientLane::~ClientLane() {
  Close();
}

bool ClientLane::Open() {
  const Account account{peer_.uid};
  if (!loop_.Add(
          socket_.get(), os::kReadable | os::kPeerFinished,
          [this](std::uint32_t events) { OnSocket(events); }, account)) {
    return false;
  }
  closed_ = false;
  // A forked child may keep the socket open, so the lane watches the process itself.
  process_ = ProcessHandle(socket_.get(), peer_.pid);
  const auto process_ended = [this](std::uint32_t) {
    End(StatusCode::kConnectionDisconnected, "its process ended");
  };
  if (process_ && !loop_.Add(process_.get(), os::kReadable, process_ended, account)) {
    process_.reset();
  }
  return true;
}

Status ClientLane::SendPlain(std::span<const std::byte> record) {
  return SendWithFds(socket_.get(), record, {});
}

Status ClientLane::Send(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds,
                        InFlight::Charge& charge) {
  if (closed_) return {StatusCode::kConnectionDisconnected, "the fd lane is closed"};
  if (sent_.size() >= kMaxUnacknowledged)
    return {StatusCode::kDeviceBusy, "too many unacknowledged hand-overs"};
  if (!unsent_.empty()) return {StatusCode::kDeviceBusy, "messages wait to be sent before it"};
  Status status = SendWithFds(socket_.get(), record, fds);
  if (status.ok()) {
    blocked_since_.reset();
    retry_after_ = kFirstRetry;
    sent_.emplace(id, Sent{steady_clock::now(), std::move(charge)});
    if (!ack_timer_) ArmAckTimer();
    return status;
  }
  if (status == StatusCode::kDeviceBusy) {
    if (!blocked_since_) blocked_since_ = steady_clock::now();
    if (steady_clock::now() - *blocked_since_ > kAckTimeout && !Patient()) {
      return {StatusCode::kIoTimeout, "the fd lane could not take a hand-over for a second"};
    }
    RetryLater();
  }
  return status;
}

Status ClientLane::SendTogether(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds,
                                InFlight::Charge& charge, std::span<const std::byte> message) {
  constexpr std::size_t kFrame = sizeof(provider::MessageRecord) + sizeof(std::uint32_t);
  if (record.size() + out_.size() + kFrame + message.size() > provider::kMaxServerDatagram) SendCorked();
  const std::size_t before = out_.size();
  AddToDatagram(message);
  std::vector<std::byte> datagram;
  datagram.reserve(record.size() + out_.size());
  datagram.insert(datagram.end(), record.begin(), record.end());
  datagram.insert(datagram.end(), out_.begin(), out_.end());
  out_.resize(before);
  Status status = Send(id, datagram, fds, charge);
  if (status.ok()) EmptyDatagram();
  return status;
}

void ClientLane::RetryLater() {
  // epoll does not report the end of "too many descriptors in flight".
  if (retry_timer_) return;
  const Duration after = std::exchange(retry_after_, std::min(2 * retry_after_, kLastRetry));
  retry_timer_ = loop_.At(loop_.clock().Now() + after, [this] {
    retry_timer_.reset();
    callbacks_.room();
  });
}

void ClientLane::ArmAckTimer() {
  RealTime oldest = RealTime::max();
  for (const auto& [id, sent] : sent_) oldest = std::min(oldest, sent.when);
  const Duration left = std::max<Duration>(oldest + kAckTimeout - steady_clock::now(), Duration::zero());
  ack_timer_ = loop_.At(loop_.clock().Now() + left, [this] {
    ack_timer_.reset();
    OnAckDeadline();
  });
}

bool ClientLane::Late(RealTime now) const {
  return std::any_of(sent_.begin(), sent_.end(),
                     [&](const auto& entry) { return now - entry.second.when >= kAckTimeout; });
}

void ClientLane::OnAckDeadline() {
  const RealTime now = steady_clock::now();
  // Timers run before sockets are read. After a pause of this process, acknowledgements of its clients may be
  // unread in the socket.
  for (int i = 0; i < kTurnsBeforeJudgement && Late(now) && !not_reading() && !Patient(); ++i) {
    OnSocket(0);
    if (closed_) return;
  }
  if (sent_.empty()) return;
  const bool late = Late(now);
  // Acknowledgements may be queued behind messages that the broker does not read.
  if (late && !not_reading() && !Patient()) {
    return End(StatusCode::kIoTimeout, "it did not acknowledge a hand-over within a second");
  }
  if (late) {
    for (auto& [id, sent] : sent_) sent.when = now;
  }
  if (!ack_timer_) ArmAckTimer();  // A hand-over that was sent meanwhile has armed it.
}

bool ClientLane::SendMessage(std::span<const std::byte> message, std::size_t bound) {
  if (closed_) return true;  // The session has no callbacks any more.
  const auto length = static_cast<std::uint32_t>(message.size());
  if (unsent_bytes_ != 0 && unsent_bytes_ + out_.size() + sizeof length + length > bound) return false;
  bound_ = bound;
  if (!out_.empty() && out_.size() + sizeof length + length > provider::kMaxServerDatagram) SendCorked();
  AddToDatagram(message);
  if (!corked_) SendCorked();
  return true;
}

void ClientLane::AddToDatagram(std::span<const std::byte> message) {
  const auto length = static_cast<std::uint32_t>(message.size());
  const provider::MessageRecord record;
  const std::size_t head = out_.empty() ? sizeof record : 0, before = out_.size();
  out_.resize(before + head + sizeof length + length);
  std::byte* const to = out_.data() + before;
  if (head != 0) std::memcpy(to, &record, sizeof record);
  std::memcpy(to + head, &length, sizeof length);
  if (length != 0) std::memcpy(to + head + sizeof length, message.data(), length);
}

bool ClientLane::SendDatagram(std::vector<std::byte> datagram, std::size_t bound) {
  if (closed_) return true;
  if (unsent_bytes_ != 0 && unsent_bytes_ + out_.size() + datagram.size() > bound) return false;
  bound_ = bound;
  SendCorked();  // The messages before it.
  out_ = std::move(datagram);
  SendCorked();
  return true;
}

void ClientLane::EmptyDatagram() {
  if (out_.capacity() > kMemoryKept) out_ = {};
  out_.clear();
}

void ClientLane::SendCorked() {
  if (out_.empty()) return;
  if (unsent_.empty()) {
    const Status status = SendWithFds(socket_.get(), out_, {});
    // A client that is gone is noticed by its hang-up.
    if (!(status == StatusCode::kDeviceBusy)) {
      return EmptyDatagram();
    }
  }
  unsent_bytes_ += out_.size();
  unsent_.push_back(std::exchange(out_, {}));
  behind_ = behind_ || unsent_bytes_ > bound_ / 2;
  if (unsent_.size() == 1) {
    patience_timer_ = loop_.At(loop_.clock().Now() + kReaderPatience,
                               [this, sent_then = datagrams_sent_] { OnPatienceOver(sent_then); });
  }
  Watch();
}

void ClientLane::OnWritable() {
  while (!unsent_.empty()) {
    if (SendWithFds(socket_.get(), unsent_.front(), {}) == StatusCode::kDeviceBusy) break;
    unsent_bytes_ -= unsent_.front().size();
    unsent_.pop_front();
    ++datagrams_sent_;
  }
  if (unsent_.empty()) {
    loop_.Cancel(*patience_timer_);
    patience_timer_.reset();
  }
  behind_ = behind_ && unsent_bytes_ > bound_ / 4;
  Watch();
  if (unsent_.empty()) callbacks_.room();
}

void ClientLane::OnPatienceOver(std::uint64_t sent_then) {
  if (sent_then == datagrams_sent_) {
    return End(StatusCode::kInsufficientResources, "the client does not read its messages");
  }
  patience_timer_ =
      loop_.At(loop_.clock().Now() + kReaderPatience, [this, now = datagrams_sent_] { OnPatienceOver(now); });
}

void ClientLane::SetReading(bool on) {
  paused_ = !on;
  if (!closed_) Watch();
}

void ClientLane::Watch() {
  loop_.Modify(socket_.get(), (not_reading() ? 0u : os::kReadable) | os::kPeerFinished |
                                  (unsent_.empty() ? 0u : os::kWritable));
  if (!ahead_.empty() && !not_reading()) ReadAheadLater();
}

void ClientLane::OnSocket(std::uint32_t events) {
  if ((events & os::kWritable) != 0 && !unsent_.empty()) OnWritable();
  if (closed_) return;
  if (not_reading()) {
    // Unread messages of the client are discarded with its session.
    if ((events & (os::kHungUp | os::kPeerFinished | os::kFailed)) != 0)
      End(StatusCode::kConnectionDisconnected, "it hung up");
    return;
  }
  corked_ = true;
  Read();
  KeepAhead();
  corked_ = false;
  if (!closed_) SendCorked();
}

void ClientLane::Read() {
  // Bounds the turn of one client, because others wait; a turn is shorter when they wait already.
  constexpr int kMessages = 16;
  constexpr std::size_t kBytes = 64 * 1024;
  std::size_t bytes = 0;
  bool all = false;
  for (int i = 0; i < kMessages && bytes < kBytes && !closed_ && !not_reading(); ++i) {
    if (i != 0 && loop_.TurnIsOver()) break;
    if (ahead_.empty() && callbacks_.sockets) {
      if (!ReadWithSockets(&bytes)) return;
      if (ahead_.empty()) continue;
    }
    if (ahead_.empty() && (all || !Receive(&all))) return;
    HandleNext(&bytes);
  }
  if (!closed_ && !ahead_.empty() && !not_reading()) ReadAheadLater();
}

bool ClientLane::ReadWithSockets(std::size_t* bytes) {
  static thread_local std::array<std::byte, provider::kMaxClientDatagram> buffer;
  FdMessage message;
  if (!ReceiveSockets(buffer, &message)) return false;
  *bytes += message.size;
  const auto datagram = std::span<const std::byte>(buffer).first(message.size);
  if (provider::IsSocketsRecord(datagram)) {
    OnSockets(datagram, std::move(message));
  } else if (!message.fds.empty() || message.lost_fds) {
    Discard(std::move(message.fds));
    End(StatusCode::kRemoteError, "it sent descriptors with a datagram that has none");
  } else {
    *bytes -= datagram.size();  // Counted when it is handled.
    ahead_.Push({.bytes = datagram});
  }
  return !closed_;
}

void ClientLane::HandleNext(std::size_t* bytes) {
  Received& received = ahead_[0];
  const std::size_t before = received.handled;
  bool more = false;
  if (received.had_descriptors) {
    End(StatusCode::kRemoteError, "it sent descriptors, which the broker never accepts");
  } else if (received.too_long) {
    End(StatusCode::kRemoteError, "it sent a datagram that is too long");
  } else {
    more = OnDatagram(received);
  }
  *bytes += received.handled - before;
  if (!more) ahead_.Drop();
}

void ClientLane::KeepAhead() {
  for (std::size_t i = 0; i < ahead_.size(); ++i) {
    Received& received = ahead_[i];
    if (!received.kept.empty()) continue;
    received.kept.assign(received.bytes.begin(), received.bytes.end());
    received.bytes = received.kept;
  }
}

bool ClientLane::Receive(bool* all) {
  // No callback reads another lane, so this memory is of this lane until KeepAhead().
  static thread_local std::array<std::array<std::byte, provider::kMaxClientDatagram>, kMostReceived> memory;
  std::array<std::span<std::byte>, kMostReceived> buffers;
  std::copy(memory.begin(), memory.end(), buffers.begin());
  std::array<os::ReceivedMessage, kMostReceived> got;
  const std::size_t count = ReceiveInOrder(socket_.get(), buffers, got);
  const int error = count == 0 ? errno : 0;
  loop_.NextMoment();
  *all = count < kMostReceived;
  for (std::size_t i = 0; i < count && got[i].size != 0; ++i) {
    const auto bytes = buffers[i].first(static_cast<std::size_t>(got[i].size));
    ahead_.Push({bytes, got[i].had_descriptors, got[i].too_long});
  }
  // The socket reports a hang-up behind messages again.
  if (!ahead_.empty() || (count == 0 && (error == EAGAIN || error == EWOULDBLOCK))) return !ahead_.empty();
  // A client that ended without reading everything looks like a reset.
  if (count != 0 || error == ECONNRESET) {
    End(StatusCode::kConnectionDisconnected, "it hung up");
  } else {
    End(StatusCode::kRemoteError, std::string("its socket failed: ") + os::ErrorText(error));
  }
  return false;
}

void ClientLane::ReadAheadLater() {
  if (std::exchange(*ahead_posted_, true)) return;
  loop_.PostFor(Account{peer_.uid}, [this, alive = std::weak_ptr(ahead_posted_)] {
    const std::shared_ptr<bool> posted = alive.lock();
    if (!posted) return;
    *posted = false;
    if (!closed_) OnSocket(0);
  });
}

bool ClientLane::ReceiveSockets(std::span<std::byte> buffer, FdMessage* message) {
  std::vector<UniqueFd> of_wrong;
  Result<FdMessage> got = ReceiveWithFds(socket_.get(), buffer, /*blocking=*/false, &of_wrong);
  loop_.NextMoment();
  Discard(std::move(of_wrong));
  if (got.ok()) {
    *message = std::move(*got);
    return true;
  }
  if (got.code() == StatusCode::kDeviceBusy) return false;
  const int error = got.status().native();
  const bool hung_up =
      got.code() == StatusCode::kConnectionDisconnected && (error == 0 || error == ECONNRESET);
  if (hung_up) {
    End(StatusCode::kConnectionDisconnected, "it hung up");
  } else {
    End(StatusCode::kRemoteError,
        "it sent a wrong datagram, or its socket failed: " + got.status().message());
  }
  return false;
}

void ClientLane::Discard(std::vector<UniqueFd> fds) {
  if (!fds.empty()) callbacks_.discard(std::move(fds));
}

void ClientLane::OnSockets(std::span<const std::byte> datagram, FdMessage message) {
  const Result<provider::SocketsRecord> record =
      provider::DecodeSocketsRecord(datagram, message.fds.size(), message.lost_fds);
  if (!record.ok() || message.lost_fds) Discard(std::exchange(message.fds, {}));
  if (!record.ok()) return End(record.code(), "it sent " + record.status().message());
  callbacks_.sockets(record->op_id, std::move(message.fds));
}

bool ClientLane::OnDatagram(Received& received) {
  const std::span<const std::byte> datagram = received.bytes;
  if (received.handled == 0) {
    provider::MessageRecord record;
    if (datagram.size() >= sizeof record) std::memcpy(&record, datagram.data(), sizeof record);
    if (datagram.size() < sizeof record || record.magic != provider::MessageRecord::kMagic) {
      received.handled = datagram.size();
      if (callbacks_.halves && provider::IsHalvesRecord(datagram)) {
        callbacks_.halves(datagram);
      } else {
        OnAck(datagram);
      }
      return false;
    }
    const provider::MessageRecord right;
    if (record.version != right.version || record.size != right.size) {
      End(StatusCode::kRemoteError, "it sent a message of another version");
      return false;
    }
    received.handled = sizeof record;
  }
  // One message: the turn of a client is counted in messages.
  std::span<const std::byte> left = datagram.subspan(received.handled);
  std::uint32_t length = 0;
  if (left.size() < sizeof length) {
    End(StatusCode::kRemoteError, "it sent a message without its length");
    return false;
  }
  std::memcpy(&length, left.data(), sizeof length);
  left = left.subspan(sizeof length);
  if (length > left.size()) {
    End(StatusCode::kRemoteError, "it sent a message whose length field is wrong");
    return false;
  }
  received.handled += sizeof length + length;
  callbacks_.message(left.first(length));
  return received.handled < datagram.size();
}

void ClientLane::OnAck(std::span<const std::byte> datagram) {
  AckRecord ack;
  if (datagram.size() != sizeof ack)
    return End(StatusCode::kRemoteError, "it sent a datagram that is not an acknowledgement");
  std::memcpy(&ack, datagram.data(), sizeof ack);
  const AckRecord right;
  if (ack.magic != right.magic || ack.version != right.version || ack.size != right.size) {
    return End(StatusCode::kRemoteError, "it sent a datagram that is not an acknowledgement");
  }
  if (sent_.erase(ack.id) == 0)
    return End(StatusCode::kRemoteError, "it acknowledged a hand-over that is not outstanding");
  if (sent_.empty() && ack_timer_) {
    loop_.Cancel(*ack_timer_);
    ack_timer_.reset();
  }
  callbacks_.room();
}

void ClientLane::Close() {
  if (closed_) return;
  // Sends the last messages if nothing is queued before them.
  if (!out_.empty() && unsent_.empty()) static_cast<void>(SendWithFds(socket_.get(), out_, {}));
  closed_ = true;
  if (ack_timer_) loop_.Cancel(*ack_timer_);
  if (retry_timer_) loop_.Cancel(*retry_timer_);
  if (patience_timer_) loop_.Cancel(*patience_timer_);
  loop_.Remove(socket_.get());
  if (process_) loop_.Remove(process_.get());
  process_.reset();
  socket_.reset();
}

void ClientLane::End(StatusCode code, const std::string& why) {
  Close();
  callbacks_.ended(Status(code, why));
}

}  // namespace nd::service
