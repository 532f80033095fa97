// SPDX-License-Identifier: Apache-2.0
// Carries a session on its fd lane: at most one system call per sent message, one thread for receiving.
//
// A caller that waits for its answer reads the lane itself where it can, so that the broker wakes it and no
// other thread has to. The thread makes room for that: after the answer to such a caller it rests instead of
// reading on, because that caller will probably call again, and reads again when no caller has come for a
// while. Before it reads it sends what was put off meanwhile.
//
// While one thread is in a system call that sends, others leave their messages to it, so that they wait for
// their answers at once and several messages leave as one datagram.
#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/os/library_thread.h"
#include "client-lib/core/carriers.h"

namespace nd::client {
namespace {

// While callers keep coming, each wake-up of the thread is in vain.
constexpr int kLongerRest = 4;
// A thread sends for others so many times before it returns to its caller.
constexpr int kDatagramsForOthers = 4;
// The broker handles this many messages in one turn of the client.
constexpr std::size_t kMostLeft = 16;

class LaneCarrier final : public LaneMessages {
 public:
  LaneCarrier(BrokerLane& lane, Sink* sink, Duration rest) : lane_(lane), sink_(sink), rest_(rest) {
    lane_.CarryMessages();
    thread_ = std::thread([this] { Run(); });
  }
  ~LaneCarrier() override { Close(); }

  bool Send(std::span<const std::byte> message) override {
    if (LeftToSender(message)) return true;
    std::lock_guard lock(write_mutex_);
    BeginDatagram();
    Add(message);
    if (!lane_.takes_many_messages()) return SendDatagram();
    {
      std::lock_guard left(left_mutex_);
      sends_for_others_ = true;
    }
    bool sent = SendDatagram();
    for (int i = 1; TakeLeft(/*last=*/!sent || i == kDatagramsForOthers); ++i) sent = SendDatagram() && sent;
    return sent;
  }

  bool SendTogether(std::span<const std::vector<std::byte>> messages) override {
    if (!lane_.takes_many_messages()) {
      return std::all_of(messages.begin(), messages.end(),
                         [this](const std::vector<std::byte>& message) { return Send(message); });
    }
    std::lock_guard lock(write_mutex_);
    BeginDatagram();
    for (const std::vector<std::byte>& message : messages) Add(message);
    return SendDatagram();
  }

  bool SendLater(std::span<const std::byte> message) override {
    {
      std::unique_lock write(write_mutex_, std::try_to_lock);
      std::lock_guard lock(mutex_);
      // The resting thread comes back for it. A caller that reads may wait for long.
      if (write && resting_ && !caller_reads_ && !over_ && lane_.PutOff(Framed(message))) return true;
    }
    return Send(message);
  }

  bool TrySend(std::span<const std::byte> message) override {
    std::unique_lock write(write_mutex_, std::try_to_lock);
    if (!write) return false;
    const Status status = lane_.TrySend(Framed(message));
    if (!status.ok() && !(status == StatusCode::kDeviceBusy)) lane_.Shutdown();
    return status.ok();
  }

  void Close() override {
    {
      std::lock_guard lock(mutex_);
      over_ = true;
      changed_.notify_all();
    }
    lane_.Shutdown();
    if (thread_.joinable()) thread_.join();
  }

  void ReadWhile(const std::function<bool()>& waiting) override {
    {
      std::lock_guard lock(mutex_);
      if (!resting_ || caller_reads_ || attend_ || over_) return;
      caller_reads_ = true;
    }
    // The caller leaves also when its thread is cancelled.
    struct Leaver {
      ~Leaver() { carrier.Leave(more); }
      LaneCarrier& carrier;
      bool more = true;
    } leaver{*this};
    while (leaver.more && waiting()) leaver.more = ReadOne();
  }

  void Attend() override {
    std::lock_guard lock(mutex_);
    // A caller that reads notices further awaited messages when it leaves.
    if (!resting_ || caller_reads_) return;
    attend_ = true;
    changed_.notify_all();
  }

 private:
  static void AddTo(std::vector<std::byte>& messages, std::span<const std::byte> message) {
    const auto length = static_cast<std::uint32_t>(message.size());
    const auto* head = reinterpret_cast<const std::byte*>(&length);
    messages.insert(messages.end(), head, head + sizeof(length));
    messages.insert(messages.end(), message.begin(), message.end());
  }
  // The next five are called under write_mutex_.
  void BeginDatagram() {
    const provider::MessageRecord record;
    datagram_.resize(sizeof(record));
    std::memcpy(datagram_.data(), &record, sizeof(record));
  }
  void Add(std::span<const std::byte> message) { AddTo(datagram_, message); }
  bool SendDatagram() {
    if (lane_.Send(datagram_).ok()) return true;
    lane_.Shutdown();  // Ends the session, and with it the operations that could not be sent.
    return false;
  }
  std::span<const std::byte> Framed(std::span<const std::byte> message) {
    BeginDatagram();
    Add(message);
    return datagram_;
  }
  // Moves the messages that others have left into the datagram. Returns false when there are none. From then
  // on, and with `last` also when there are some, none is left to this thread.
  bool TakeLeft(bool last) {
    std::lock_guard lock(left_mutex_);
    sends_for_others_ = !last && left_count_ != 0;
    if (left_count_ == 0) return false;
    BeginDatagram();
    datagram_.insert(datagram_.end(), left_.begin(), left_.end());
    left_.clear();
    left_count_ = 0;
    return true;
  }

  // Leaves the message to the thread that sends. Returns false when there is none, or too much is left to it.
  bool LeftToSender(std::span<const std::byte> message) {
    constexpr std::size_t kRoom = provider::kMaxClientDatagram - sizeof(provider::MessageRecord);
    std::lock_guard lock(left_mutex_);
    const std::size_t after = left_.size() + sizeof(std::uint32_t) + message.size();
    if (!sends_for_others_ || left_count_ == kMostLeft || after > kRoom) return false;
    AddTo(left_, message);
    ++left_count_;
    return true;
  }

  void Run() {
    os::MarkLibraryThread();
    while (ReadOne() && Rest()) {
    }
    lane_.Shutdown();  // Ends waiting sends.
    sink_->OnClosed(why_);
  }

  // Leaves reading to callers for a while when no other message is awaited. Returns false when the session is
  // over.
  bool Rest() {
    std::unique_lock lock(mutex_);
    if (over_ || !sink_->AwaitsNothing()) return !over_;
    resting_ = true;
    Duration rest = rest_;
    for (bool used = true; used && !attend_ && !over_; rest = std::min(2 * rest, kLongerRest * rest_)) {
      const std::uint64_t before = turns_;
      const bool read_before = caller_reads_;
      changed_.wait_for(lock, rest, [this] { return attend_ || over_; });
      used = caller_reads_ || turns_ != before;
      // A caller that has read for the whole time may read for long, and notifies this thread when it leaves.
      // That costs a wake-up, so a short call does without it.
      if (!read_before || turns_ != before) continue;
      watches_caller_ = true;
      changed_.wait(lock, [this] { return !caller_reads_; });
      watches_caller_ = false;
    }
    // Not while a caller reads.
    changed_.wait(lock, [this] { return !caller_reads_; });
    resting_ = attend_ = false;
    return !over_;
  }

  void Leave(bool more) {
    std::lock_guard lock(mutex_);
    caller_reads_ = false;
    ++turns_;
    over_ |= !more;
    attend_ |= !over_ && !sink_->AwaitsNothing();
    if (attend_ || over_ || watches_caller_) changed_.notify_all();
  }

  // Called by the thread, or by a caller that reads while the thread rests. Returns false when the session is
  // over.
  bool ReadOne() {
    auto bytes = lane_.Receive();
    if (bytes.ok()) return sink_->OnMessage(*bytes);
    const bool hung_up = bytes.code() == StatusCode::kConnectionDisconnected;
    why_ = Status(StatusCode::kDeviceRemoved, hung_up ? "" : bytes.status().message());
    return false;
  }

  BrokerLane& lane_;
  Sink* const sink_;
  const Duration rest_;
  std::mutex write_mutex_;
  std::vector<std::byte> datagram_;
  Status why_{StatusCode::kDeviceRemoved, ""};

  // Locked after write_mutex_, and never while a thread sends.
  std::mutex left_mutex_;
  bool sends_for_others_ = false;  // The holder of write_mutex_ will call TakeLeft().
  std::vector<std::byte> left_;    // Messages with their lengths.
  std::size_t left_count_ = 0;

  // Locked before any mutex of the sink, and after write_mutex_.
  std::mutex mutex_;
  std::condition_variable changed_;
  bool over_ = false;
  bool resting_ = false;         // The thread does not read.
  bool caller_reads_ = false;    // Only while it rests.
  bool attend_ = false;          // The thread is to read again.
  bool watches_caller_ = false;  // The thread waits without a time-out until the caller leaves.
  std::uint64_t turns_ = 0;      // Of callers.
  std::thread thread_;
};

}  // namespace

std::unique_ptr<LaneMessages> OpenLaneCarrier(BrokerLane& lane, Carrier::Sink* sink, Duration rest) {
  return std::make_unique<LaneCarrier>(lane, sink, rest);
}

}  // namespace nd::client
