// SPDX-License-Identifier: Apache-2.0
// The inside of a UD queue pair: UDP sockets on the adapter's addresses, in the network namespace of the
// program, all with the port that is part of the queue pair's number. The broker takes no part.
//
// Datagrams are read when the program polls the completion queue, some at a time, so that it can post
// receives in between. While it waits for an event of the queue, a thread of this library reads them.
//
// Thread rule: any thread. Lock order: this, then the completion queue and the shared receive queue.
#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "base/unique_fd.h"
#include "nd/types.h"
#include "verbs-lib/completion.h"
#include "verbs-lib/datagram_header.h"
#include "verbs-lib/receive_ring.h"

namespace nd::verbs_lib {

struct QueuePair;

class DatagramPair final : public CompletionSource {
 public:
  // Null, with errno, when no address of the adapter can be bound.
  static std::unique_ptr<DatagramPair> Open(QueuePair* owner);
  ~DatagramPair() override;

  std::uint32_t number() const { return kDatagramNumbers + port_; }
  // 0, or the errno of the post.
  int PostSend(const ibv_send_wr& request);
  int PostReceive(const ibv_recv_wr& request);
  // Completes the posted receives as flushed.
  void Flush();
  // Forgets the posted receives.
  void Reset();

  // Nothing is received any more, and the completion queues are not used.
  void Close();

  void Drive(int most) override;
  void Watch() override;
  // Called by the thread when a datagram has arrived.
  void Serve(int most);

 private:
  struct Socket {
    UniqueFd fd;  // Empty where the address cannot be bound here.
    Address address;
    bool watched = false;  // The thread watches it.
  };
  // Datagrams that no receive got.
  struct Dropped {
    std::uint64_t foreign = 0, wrong_qkey = 0, without_receive = 0, unsent = 0;
  };

  explicit DatagramPair(QueuePair* owner);
  bool Bind(const std::vector<Address>& addresses);
  // The next three: under `mutex_`.
  void Read(int most);
  void WatchSockets();
  void Deliver(const Socket& socket, std::span<const std::byte> datagram, const Address& from);
  // The status of the receive.
  ibv_wc_status Scatter(std::span<const ibv_sge> pieces, const ibv_grh& route,
                        std::span<const std::byte> payload) const;
  ibv_wc_status SendNow(const ibv_send_wr& request, std::uint32_t length);

  QueuePair* const owner_;
  std::uint16_t port_ = 0;
  std::vector<Socket> sockets_;
  std::mutex mutex_;
  ReceiveRing receives_;
  Dropped dropped_;
  std::array<std::byte, kDatagramHeaderSize + kMaxDatagramPayload + 1> arriving_;
};

}  // namespace nd::verbs_lib
