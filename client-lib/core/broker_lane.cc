// SPDX-License-Identifier: Apache-2.0
// The socket carries descriptors, proves the identity of the client to the broker, and its hang-up tells each
// end that the other is gone.
#include "client-lib/core/broker_lane.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "base/fd_lane.h"
#include "base/os/fork.h"
#include "base/os/socket.h"
#include "base/os/wait.h"
#include "provider/sockets_record.h"

namespace nd::client {
namespace {

// The broker has at most a few unacknowledged hand-overs; more than this without an owner means a broken
// broker.
// The completion of a hand-over usually follows it at once, and its acknowledgement then leaves behind both.
// The broker may wait for the acknowledgement before it sends anything else, so this is short.
constexpr Duration kMessageFollows = std::chrono::milliseconds(1);
constexpr std::size_t kMaxWaiting = 256;
constexpr std::size_t kMaxDatagram = 512;
// Between two attempts while the kernel has no memory for a message.
constexpr std::chrono::milliseconds kNap{1};
constexpr int kMostRefusals = 1000;
// The broker handles this many messages in one turn of the client.
constexpr std::size_t kMostPutOff = 16;

Status Broken(const std::string& what) {
  return {StatusCode::kRemoteError, "fd lane: " + what, Detail::kProtocol};
}

// All records start with magic, version and size.
struct Head {
  std::uint32_t magic;
  std::uint16_t version;
  std::uint16_t size;
};

template <typename Record>
Status Copy(std::span<const std::byte> datagram, const char* name, Record* record) {
  if (datagram.size() != sizeof(Record)) {
    return Broken(std::string(name) + " of " + std::to_string(datagram.size()) + " bytes, expected " +
                  std::to_string(sizeof(Record)));
  }
  std::memcpy(record, datagram.data(), sizeof(Record));
  const Record expected;
  if (record->version != expected.version || record->size != expected.size) {
    return Broken(std::string(name) + " of version " + std::to_string(record->version) + " and size " +
                  std::to_string(record->size) + ", expected version " + std::to_string(expected.version) +
                  " and size " + std::to_string(expected.size));
  }
  return {};
}

Status NoMemory() {
  return Broken("the kernel has had no memory for a message for a second");
}

Status CheckFds(const char* name, std::uint32_t declared, std::size_t arrived) {
  if (declared == arrived) return {};
  return Broken(std::string(name) + " with " + std::to_string(arrived) + " descriptors, declared " +
                std::to_string(declared));
}

}  // namespace

BrokerLane::BrokerLane(UniqueFd socket) : socket_(std::move(socket)) {
  os::CloseInChild(socket_.get());
}

BrokerLane::~BrokerLane() {
  os::ForgetInChild(socket_.get());
}

Result<std::string> BrokerLane::ReadToken(Time deadline) {
  os::Watched entry{socket_.get()};
  int ready;
  do {
    ready = os::Wait({&entry, 1}, std::max<Duration>(deadline - SystemClock().Now(), Duration::zero()));
  } while (ready < 0 && errno == EINTR);
  if (ready <= 0) {
    return Status(StatusCode::kIoTimeout, "the broker did not greet; is it stopped?",
                  Detail::kBrokerUnreachable);
  }
  std::array<std::byte, kMaxDatagram> buffer;
  auto message = ReceiveWithFds(socket_.get(), buffer, false);
  if (message.code() == StatusCode::kConnectionDisconnected) {
    return Status(StatusCode::kDeviceNotReady,
                  "the broker hung up at once: it is stopping, or refuses more sessions",
                  Detail::kBrokerUnreachable);
  }
  if (!message.ok()) return message.status();
  provider::TokenRecord record;
  if (Status status = Copy(std::span(buffer).first(message->size), "token", &record); !status.ok())
    return status;
  if (record.magic != provider::TokenRecord::kMagic) return Broken("the first datagram is no token");
  if (Status status = CheckFds("token", 0, message->fds.size()); !status.ok()) return status;
  takes_messages_ = (record.features & provider::kLaneMessages) != 0;
  takes_many_messages_ = (record.features & provider::kLaneManyMessages) != 0;
  reattach_makes_queue_pairs_ = (record.features & provider::kReattachMakesQueuePairs) != 0;
  asks_for_sockets_ = (record.features & provider::kGiveSockets) != 0;
  takes_halves_messages_ = (record.features & provider::kHalvesMessages) != 0;
  return std::string(reinterpret_cast<const char*>(record.token), sizeof(record.token));
}

Result<std::span<const std::byte>> BrokerLane::Receive() {
  if (unread_messages_.empty()) {
    auto messages = ReceiveMessages();
    if (!messages.ok()) return messages;
    unread_messages_ = *messages;
  }
  std::uint32_t length = 0;
  if (unread_messages_.size() < sizeof(length)) return Broken("a message without its length");
  std::memcpy(&length, unread_messages_.data(), sizeof(length));
  unread_messages_ = unread_messages_.subspan(sizeof(length));
  if (length > unread_messages_.size()) return Broken("a message that is shorter than its length");
  const auto message = unread_messages_.first(length);
  unread_messages_ = unread_messages_.subspan(length);
  return message;
}

// Returns the messages of the next datagram that has any.
Result<std::span<const std::byte>> BrokerLane::ReceiveMessages() {
  constexpr std::size_t kSize = provider::kMaxServerDatagram;
  if (!buffer_) buffer_.reset(new std::byte[kSize]);
  const std::span buffer(buffer_.get(), kSize);
  for (;;) {
    bool only_acknowledgements = false;
    const bool idle = NothingToSend(&only_acknowledgements);
    auto message = ReceiveWithFds(socket_.get(), buffer, /*blocking=*/idle);
    if (message.code() == StatusCode::kDeviceBusy) {
      if (idle) continue;
      if (only_acknowledgements && std::exchange(message_follows_, false)) {
        os::Watched entry{socket_.get()};
        os::Wait({&entry, 1}, kMessageFollows);
        continue;
      }
      const Status status = SendPutOff();
      if (!(status == StatusCode::kDeviceBusy)) continue;
      // The broker may stop reading until this side reads, so wait for both directions.
      os::Watched entry{socket_.get(), os::kReadable | os::kWritable};
      if (os::Wait({&entry, 1}, os::kNoLimit) < 0 && errno != EINTR) return Broken("cannot wait for it");
      // The kernel has no memory for it.
      if (status.native() != EAGAIN && entry.ready == os::kWritable) std::this_thread::sleep_for(kNap);
      continue;
    }
    if (!message.ok()) return message.status();
    auto datagram = std::span<const std::byte>(buffer).first(message->size);
    provider::MessageRecord record;
    if (datagram.size() >= sizeof(record)) std::memcpy(&record, datagram.data(), sizeof(record));
    if (record.magic == provider::HandOffRecord::kMagic &&
        datagram.size() > sizeof(provider::HandOffRecord)) {
      std::lock_guard lock(mutex_);
      const auto hand_off = datagram.first(sizeof(provider::HandOffRecord));
      if (Status status = Handle(hand_off, std::move(*message)); !status.ok()) return status;
      message->fds.clear();
      datagram = datagram.subspan(hand_off.size());
      if (datagram.size() >= sizeof(record)) std::memcpy(&record, datagram.data(), sizeof(record));
      if (record.magic != provider::MessageRecord::kMagic) return Broken("no messages behind a hand-over");
    }
    if (datagram.size() < sizeof(record) || record.magic != provider::MessageRecord::kMagic) {
      std::lock_guard lock(mutex_);
      if (Status status = Handle(datagram, std::move(*message)); !status.ok()) return status;
      message_follows_ = record.magic == provider::HandOffRecord::kMagic;
      continue;
    }
    message_follows_ = false;
    const provider::MessageRecord expected;
    if (record.version != expected.version || record.size != expected.size || !message->fds.empty()) {
      return Broken("a message of another version, or with descriptors");
    }
    return datagram.subspan(sizeof(record));
  }
}

Status BrokerLane::GiveSockets(std::uint64_t op_id, std::span<const int> sockets) {
  provider::SocketsRecord record;
  record.op_id = op_id;
  record.fd_count = static_cast<std::uint32_t>(sockets.size());
  return SendAll(provider::EncodeSocketsRecord(record), sockets);
}

Status BrokerLane::SendHalves(provider::TransportKind transport, std::span<const std::byte> message) {
  return SendAll(provider::EncodeHalvesRecord(transport, message), {});
}

Status BrokerLane::Send(std::span<const std::byte> datagram) {
  std::uint64_t number = 0;
  for (int refused = 0; refused < kMostRefusals;) {
    Status status = SendBehindQueue(datagram, /*queue=*/true, &number);
    if (!(status == StatusCode::kDeviceBusy)) return status;
    WaitForRoom(status, &refused);
  }
  return NoMemory();
}

Status BrokerLane::TrySend(std::span<const std::byte> datagram) {
  std::uint64_t number = 0;
  return SendBehindQueue(datagram, /*queue=*/false, &number);
}

Status BrokerLane::SendBehindQueue(std::span<const std::byte> datagram, bool queue, std::uint64_t* number) {
  std::lock_guard lock(queue_mutex_);
  if (queue_.empty()) {
    // A thread in Receive() may have sent it.
    return *number != 0 ? Status() : SendWithFds(socket_.get(), datagram, {});
  }
  if (*number == 0 && !queue) {
    Status status = SendQueue();
    return status.ok() ? SendWithFds(socket_.get(), datagram, {}) : status;
  }
  if (*number == 0) {
    Enqueue(datagram);
    *number = queued_;
  }
  Status status = SendQueue();
  return status == StatusCode::kDeviceBusy && dequeued_ >= *number ? Status() : status;
}

Status BrokerLane::SendAll(std::span<const std::byte> datagram, std::span<const int> descriptors) {
  for (int refused = 0; refused < kMostRefusals;) {
    Status status = SendWithFds(socket_.get(), datagram, descriptors);
    if (!(status == StatusCode::kDeviceBusy)) return status;
    WaitForRoom(status, &refused);
  }
  return NoMemory();
}

// The kernel may have no memory although the socket has room; it gets a second.
void BrokerLane::WaitForRoom(const Status& busy, int* refused) {
  if (busy.native() == EAGAIN) {
    os::Watched entry{socket_.get(), os::kWritable};
    os::Wait({&entry, 1}, os::kNoLimit);
  } else {
    if (!TooManyInFlight(busy)) ++*refused;  // The broker takes the earlier descriptors.
    std::this_thread::sleep_for(kNap);
  }
}

bool BrokerLane::PutOff(std::span<const std::byte> datagram) {
  std::lock_guard lock(queue_mutex_);
  if (messages_queued_ >= kMostPutOff) return false;
  Enqueue(datagram);
  return true;
}

// Under queue_mutex_.
void BrokerLane::Enqueue(std::span<const std::byte> datagram) {
  ++messages_queued_;
  const auto message = datagram.subspan(sizeof(provider::MessageRecord));
  if (!queue_.empty() && queue_.back().takes_messages &&
      queue_.back().bytes.size() + message.size() <= provider::kMaxClientDatagram) {
    std::vector<std::byte>& last = queue_.back().bytes;
    last.insert(last.end(), message.begin(), message.end());
    return;
  }
  queue_.push_back({{datagram.begin(), datagram.end()}, takes_many_messages_});
  ++queued_;
}

bool BrokerLane::NothingToSend(bool* only_acknowledgements) {
  std::lock_guard lock(queue_mutex_);
  *only_acknowledgements = std::ranges::all_of(queue_, &Datagram::acknowledges);
  return queue_.empty();
}

Status BrokerLane::SendPutOff() {
  std::lock_guard lock(queue_mutex_);
  return SendQueue();
}

// Under queue_mutex_. DEVICE_BUSY: some are left. Any other failure: the broker has gone.
Status BrokerLane::SendQueue() {
  Status status;
  while (status.ok() && !queue_.empty()) {
    std::vector<std::span<const std::byte>> datagrams;
    for (const Datagram& datagram : queue_) datagrams.emplace_back(datagram.bytes);
    const std::size_t sent = SendInOrder(socket_.get(), datagrams, &status);
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<std::ptrdiff_t>(sent));
    dequeued_ += sent;
  }
  if (!status.ok() && !(status == StatusCode::kDeviceBusy)) {
    dequeued_ += queue_.size();
    queue_.clear();
  }
  if (queue_.empty()) messages_queued_ = 0;
  return status;
}

void BrokerLane::Shutdown() {
  os::ShutDown(socket_.get(), os::Direction::kBoth);
}

Status BrokerLane::Drain() {
  if (carries_) return {};
  std::lock_guard lock(mutex_);
  std::array<std::byte, kMaxDatagram> buffer;
  for (;;) {
    auto message = ReceiveWithFds(socket_.get(), buffer, false);
    if (message.code() == StatusCode::kDeviceBusy) return {};
    if (!message.ok()) return message.status();
    Status status = Handle(std::span(buffer).first(message->size), std::move(*message));
    if (!status.ok()) return status;
  }
}

// A datagram whose descriptors are lost is acknowledged too. A queue pair does not attach to such a
// hand-over, and does not count in such a page.
Status BrokerLane::Handle(std::span<const std::byte> datagram, FdMessage received) {
  std::vector<UniqueFd>& fds = received.fds;
  Head head{};
  if (datagram.size() < sizeof(head))
    return Broken("a datagram of " + std::to_string(datagram.size()) + " bytes");
  std::memcpy(&head, datagram.data(), sizeof(head));
  switch (head.magic) {
    case provider::HandOffRecord::kMagic: {
      provider::HandOff hand_off;
      if (Status status = Copy(datagram, "hand-over", &hand_off.record); !status.ok()) return status;
      const provider::HandOffRecord& record = hand_off.record;
      const std::size_t sent = received.lost_fds ? record.fd_count : fds.size();
      if (Status status = CheckFds("hand-over", record.fd_count, sent); !status.ok()) return status;
      if (waiting_.size() >= kMaxWaiting) return Broken("too many hand-overs that no completion named");
      const std::uint64_t id = record.id;
      hand_off.fds = std::move(fds);
      if (id == 0 || !waiting_.emplace(id, std::move(hand_off)).second) {
        return Broken("hand-over id " + std::to_string(id) + " is zero or was used before");
      }
      return Acknowledge(id);
    }
    case provider::CountersPageRecord::kMagic: {
      provider::CountersPageRecord record;
      if (Status status = Copy(datagram, "counters page", &record); !status.ok()) return status;
      if (received.lost_fds) return Acknowledge(record.id);
      if (Status status = CheckFds("counters page", record.fd_count, fds.size()); !status.ok()) return status;
      if (fds.size() != 1) return Broken("counters page without its memory");
      if (Status status = counters_->Add(record, std::move(fds[0])); !status.ok()) return status;
      return Acknowledge(record.id);
    }
    case provider::HalvesRecord::kMagic: {
      const Result<provider::HalvesMessage> message = provider::DecodeHalvesRecord(datagram);
      if (!message.ok()) return Broken(message.status().message());
      if (!fds.empty()) return Broken("a message of a provider with descriptors");
      if (halves_) halves_(*message);
      return {};
    }
    default:
      return Broken("a datagram with unknown magic " + std::to_string(head.magic));
  }
}

// On a lane with messages it is put off: it leaves with the next message, or before Receive() waits for
// another, so that the broker is not woken for it alone. Otherwise a full socket means that the broker does
// not read.
Status BrokerLane::Acknowledge(std::uint64_t id) {
  provider::AckRecord record;
  record.id = id;
  const auto datagram = std::as_bytes(std::span(&record, 1));
  if (!carries_) return SendWithFds(socket_.get(), datagram, {});
  std::lock_guard lock(queue_mutex_);
  queue_.push_back({{datagram.begin(), datagram.end()}, /*takes_messages=*/false, /*acknowledges=*/true});
  ++queued_;
  return {};
}

std::optional<provider::HandOff> BrokerLane::Take(std::uint64_t id) {
  std::lock_guard lock(mutex_);
  const auto it = waiting_.find(id);
  if (it == waiting_.end()) return std::nullopt;
  provider::HandOff hand_off = std::move(it->second);
  waiting_.erase(it);
  return hand_off;
}

}  // namespace nd::client
