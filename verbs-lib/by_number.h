// SPDX-License-Identifier: Apache-2.0
// Queue pairs that two programs connect by number, without rdma_cm: each tells the other its address (GID)
// and the number of its queue pair by a way of its own, and moves its queue pair to RTR with the other's.
//
// The low 16 bits of a number are a port of the broker, which the queue pair holds from its creation, so no
// other queue pair on that address has the number. A connection by number is an ordinary connection of
// the broker between the two ports: the side with the smaller (address, port) connects from its port, the
// other listens at its own and takes only the request that comes from the address, the port and the number
// which its program named. So both programs named each other, whoever else asks is refused, and policy,
// quotas and history apply as to any connection.
//
// Thread rule: calls for one queue pair come from one thread at a time, except waiting() and OnPosted();
// completions of the library arrive on its dispatch thread. `mutex_` is never held during a call to the
// library.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>

#include "nd/nd.h"
#include "verbs-lib/device.h"

namespace nd::verbs_lib {

struct QueuePair;

// Returns true when the end at `local` connects and the one at `remote` listens. Both ends come to the same
// answer.
inline bool Dials(const Address& local, const Address& remote) {
  return local < remote;
}

class ByNumber : public std::enable_shared_from_this<ByNumber> {
 public:
  // The peer that the program named.
  struct Peer {
    Address local, remote;  // With the ports of the two numbers.
    std::uint32_t own_number = 0, number = 0;
    ReadLimits limits;
    bool for_sends = false;  // The connection is that of QueuePair::sender.
  };

  // Takes a port of the device's first address. Without one (policy, quota) the queue pair can be connected
  // by rdma_cm only.
  static std::shared_ptr<ByNumber> Make(Device* device);
  explicit ByNumber(Device* device) : device_(device) {}
  ~ByNumber() { SetWaiting(false); }

  // 0: it has none.
  std::uint16_t port() const { return port_; }
  // The reason why it has none.
  const Status& no_port() const { return no_port_; }

  // Connects the queue pair, which has a port, with this peer, in the background and for as long as it takes.
  // Returns 0, or an errno with a line on stderr.
  int Expect(const std::shared_ptr<QueuePair>& queue_pair, const Peer& peer);
  // Ends the connection or the attempt, and gives the port back when that is over. `then` runs at the end.
  void Leave(std::function<void()> then = nullptr);

  // Returns true while an expected peer has not connected yet.
  bool waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // True from Expect() to Leave().
  bool named() const { return named_.load(); }
  // Called when a request was posted while waiting(). Without a peer the request fails after `retries`, but
  // not before 5 s, because a program makes its two queue pairs one after the other.
  void OnPosted(std::chrono::nanoseconds retries);
  // Returns true once, after the time to wait for the peer has ended.
  bool TakeExpiry() { return expired_.exchange(false); }

 private:
  // Each Expect() and Leave() begins a new round; results of an earlier round are dropped.
  using Round = std::uint64_t;

  // Under mutex_, or when nobody else has this object any more.
  void SetWaiting(bool waiting);
  // Binds `connector` to the port at `local` unless it is bound there already.
  Status TakePort(const Address& local);
  Status StartListening(const Address& local);
  void Dial(Round round);
  void OnReplied(Round round, const Status& status);
  void DialAgain(Round round, const Status& why);
  void AwaitRequest(Round round);
  // The listener does not work now: waits for the broker.
  void AwaitBroker(Round round, const Status& why);
  void OnRequest(Round round, Connector connector, const Status& status);
  void Accept(Round round, Connector connector);
  void OnEstablished(Round round);
  void Expire(Round round);
  // Refuses a peer for good.
  void GiveUp(Round round, const Status& why);
  // The queue pair that is connected. Empty: it is gone.
  nd::QueuePair pair();

  Device* const device_;
  std::uint16_t port_ = 0;
  Status no_port_;
  std::atomic<bool> waiting_{false}, named_{false}, expired_{false};

  std::mutex mutex_;
  Round round_ = 0;
  std::weak_ptr<QueuePair> queue_pair_;
  Peer peer_;
  bool expiry_armed_ = false;
  std::chrono::nanoseconds pause_{};  // Before the next attempt of this side.
  Connector connector_;               // Holds the port, or is the connection.
  Listener listener_;
};

// Some programs (qperf) name their peer by LID and number alone. The LID of a port is the last 16 bits of its
// address, so such programs find each other in one network, where the bits before are the same.
std::uint16_t LidOf(const Address& address);
Address WithLid(const Address& neighbour, std::uint16_t lid);

// ibv_modify_qp to RTR: connects the queue pair by the number that `attributes` name, unless rdma_cm connects
// it. Returns 0 or an errno.
int ExpectPeer(QueuePair* queue_pair, const ibv_qp_attr& attributes);
// How long a device repeats a request that the peer does not answer, with these attributes.
std::chrono::nanoseconds TimeOfRetries(const ibv_qp_attr& attributes);
// Ends the queue pair. What it has sent still arrives.
void CloseQueuePair(QueuePair* queue_pair);

}  // namespace nd::verbs_lib
