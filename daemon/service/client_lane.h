// SPDX-License-Identifier: Apache-2.0
// The fd lane of one client: descriptors go out, acknowledgements come in, messages of a session on the lane
// go both ways, and a hang-up means the end of the client.
//
// The client is not trusted: any datagram that is neither a message nor the acknowledgement of a sent record,
// nor a record of sockets or a message of a provider that it was asked for, ends the lane. The kernel drops
// descriptors that nobody asked for. A client that does not acknowledge for a second (a stopped process, for
// example) keeps its lane only while `patient` returns true. Loop thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/event_loop.h"
#include "base/fd_lane.h"
#include "base/ring_queue.h"
#include "base/unique_fd.h"
#include "daemon/service/in_flight.h"
#include "daemon/service/peer.h"
#include "nd/status.h"

namespace nd::service {

inline constexpr std::size_t kMaxUnacknowledged = 4;
inline constexpr Duration kAckTimeout = std::chrono::seconds(1);
// The retry interval of a hand-over that the socket did not take; it grows.
inline constexpr Duration kFirstRetry = std::chrono::milliseconds(2),
                          kLastRetry = std::chrono::milliseconds(128);
// A client with many unsent messages is not read from until it reads some. A client that reads nothing for
// this long loses its session.
inline constexpr Duration kReaderPatience = std::chrono::seconds(5);

class ClientLane {
 public:
  struct Callbacks {
    std::function<void()> room;  // Send() may succeed again.
    // Called once, after Close(). CONNECTION_DISCONNECTED: the client ended it. Every other status is a
    // decision of the broker: REMOTE_ERROR (a wrong datagram), IO_TIMEOUT, INSUFFICIENT_RESOURCES (the client
    // does not read).
    std::function<void(const Status& why)> ended;
    // Receives one message of the client. It may end the lane.
    std::function<void(std::span<const std::byte>)> message = {};
    // Returns whether the client may exceed kAckTimeout; asked again after each kAckTimeout. Null means it
    // may not.
    std::function<bool()> patient = {};
    // Receives the sockets that the client gives (provider/sockets_record.h); none: this process had no room
    // for them. It may end the lane. Null: the client must not send descriptors.
    std::function<void(std::uint64_t op_id, std::vector<UniqueFd> sockets)> sockets = {};
    // Closes other descriptors of the client, whose close may block. Set with `sockets`.
    std::function<void(std::vector<UniqueFd>)> discard = {};
    // Receives a datagram of provider/halves_record.h. It may end the lane. Null: the client must not send
    // such datagrams.
    std::function<void(std::span<const std::byte> datagram)> halves = {};
  };

  ClientLane(EventLoop& loop, UniqueFd socket, const Peer& peer, Callbacks callbacks);
  ~ClientLane();

  // Returns false when the kernel refuses to watch the socket.
  bool Open();
  // Sends the first record of the lane, without descriptors and acknowledgement.
  Status SendPlain(std::span<const std::byte> record);
  // `id` is the number in the acknowledgement. SUCCESS: sent; the caller closes its descriptors now, and
  // `charge` is kept until the acknowledgement. DEVICE_BUSY: try again when `room` is called. Any other
  // status: the lane is broken.
  Status Send(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds,
              InFlight::Charge& charge);
  // The same with a message behind the record in one datagram, after the messages that wait in this turn.
  Status SendTogether(std::uint64_t id, std::span<const std::byte> record, std::span<const int> fds,
                      InFlight::Charge& charge, std::span<const std::byte> message);
  // Queues a message of at most kMaxServerMessage bytes. It is sent now, or together with others after the
  // messages of the client were handled, or in order when the socket has room. Returns false when more than
  // `bound` bytes would wait. While more than half of that waits, the client is not read from.
  bool SendMessage(std::span<const std::byte> message, std::size_t bound);
  // The same for a datagram of its own.
  bool SendDatagram(std::vector<std::byte> datagram, std::size_t bound);
  // Switches reading from the client on or off; on at first.
  void SetReading(bool on);
  // Stops reading and hangs up; no callback afterwards.
  void Close();

  const Peer& peer() const { return peer_; }
  std::size_t unacknowledged() const { return sent_.size(); }

 private:
  using RealTime = std::chrono::steady_clock::time_point;
  void OnSocket(std::uint32_t events);
  void Read();
  struct Received {
    std::span<const std::byte> bytes;  // In `kept`, or where they were received until Read() returns.
    bool had_descriptors = false, too_long = false;
    std::size_t handled = 0;  // Bytes at its beginning: the record and messages.
    std::vector<std::byte> kept = {};
  };
  // Puts datagrams into ahead_. Returns false when there is none, or the lane has ended. `all`: no more wait.
  bool Receive(bool* all);
  // Copies the bytes of ahead_ from where they were received.
  void KeepAhead();
  // Handles ahead_ in the next turn, because the socket does not report it.
  void ReadAheadLater();
  // Reads one datagram that may have sockets, and handles it if it has; otherwise it is in ahead_. Returns
  // false when there is none, or the lane has ended.
  bool ReadWithSockets(std::size_t* bytes);
  // Handles the next message of ahead_, or another datagram. `bytes`: adds its size.
  void HandleNext(std::size_t* bytes);
  // Returns false as ReadWithSockets().
  bool ReceiveSockets(std::span<std::byte> buffer, FdMessage* message);
  void Discard(std::vector<UniqueFd> fds);
  void OnSockets(std::span<const std::byte> datagram, FdMessage message);
  // Returns true when the datagram has more messages.
  bool OnDatagram(Received& received);
  void OnAck(std::span<const std::byte> datagram);
  // Puts a message behind those of out_, which is empty or begins with a MessageRecord.
  void AddToDatagram(std::span<const std::byte> message);
  void EmptyDatagram();
  void SendCorked();
  void OnWritable();
  void OnPatienceOver(std::uint64_t sent_then);
  bool not_reading() const { return paused_ || behind_; }
  void Watch();
  bool Late(RealTime now) const;
  void OnAckDeadline();
  void ArmAckTimer();
  void RetryLater();
  bool Patient() const { return callbacks_.patient && callbacks_.patient(); }
  void End(StatusCode code, const std::string& why);

  EventLoop& loop_;
  UniqueFd socket_, process_;
  const Peer peer_;
  Callbacks callbacks_;
  // Uses real time: a test that skips the clock does not make the client late.
  struct Sent {
    RealTime when;  // Or the time when the client was last given more time.
    InFlight::Charge charge;
  };
  std::map<std::uint64_t, Sent> sent_;
  std::optional<RealTime> blocked_since_;
  Duration retry_after_ = kFirstRetry;
  std::optional<EventLoop::TimerId> ack_timer_, retry_timer_, patience_timer_;
  bool corked_ = false;
  std::vector<std::byte> out_;  // The datagram that is being filled.
  std::deque<std::vector<std::byte>> unsent_;
  std::size_t unsent_bytes_ = 0, bound_ = 0;
  std::uint64_t datagrams_sent_ = 0;  // The datagrams of unsent_ that were sent.
  RingQueue<Received> ahead_;         // Received and not handled, or not whole.
  // Its owner is this lane; a posted function holds it weakly.
  const std::shared_ptr<bool> ahead_posted_ = std::make_shared<bool>(false);
  bool paused_ = false;  // Set by SetReading().
  bool behind_ = false;  // Too many bytes are unsent.
  bool closed_ = true;
};

}  // namespace nd::service
