// SPDX-License-Identifier: Apache-2.0
// Maps memory of each process into the other, so that a Write is one memcpy without work by the target, and a
// Send can refer to a buffer of the sender. Descriptors travel on the socket of the connection, beside the
// doorbells.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/unique_fd.h"
#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/segment_layout.h"
#include "provider/soft/qp/shm/peer_process.h"
#include "provider/soft/qp/shm/rings.h"
#include "provider/soft/qp/token_table.h"

namespace nd::provider::soft {

class SharedMemory {
 public:
  // `enabled`: both ends may share. With the peer's table `peer_process` gets the number of the process.
  SharedMemory(SoftQueuePair& queue_pair, ShmRings& rings, PeerProcess& peer_process, bool enabled);

  bool enabled() const { return enabled_; }

  // Each side shows its table once: when it wants the memory or the process of the peer for the first time,
  // or as the answer to the table of the peer. Most connections of programs that only send never do. So a
  // side that has the peer's table is known to the peer.
  void ShowTable() {
    if (enabled_ && !table_shown_) SendTable();
  }
  // The peer has shown its table, and waits for that of this side.
  bool owes_table() const { return peer_table_ != nullptr && !table_shown_; }

  // Gives the peer a buffer of this process; a borrowed one only while this side can reach the process of the
  // peer, so that the end of a registration knows for how long it has to wait. Returns true when the peer has
  // it or its descriptor is on the way.
  bool ShareBuffer(std::uint32_t id) { return Give(id) != nullptr; }
  // The same; true when a Send may refer to the first `end` bytes of the buffer. It may not refer to memory
  // of the program that the peer can perhaps not map.
  bool ShareForSends(std::uint32_t id, std::uint64_t end);
  // The same for the buffer around a registration, if there is one.
  void ShareRegistration(std::uint32_t stag);

  // Gives the peer the ready page of this side, in which it announces at this place from then on. Returns
  // false when the peer does not get it.
  bool GiveReadyPage(int page, std::uint32_t place);

  // Takes the descriptors and doorbells that arrived. `until_doorbell`: stops behind a doorbell, because the
  // peer sends no other one before the next Arm(). The rest wakes the next sleeper.
  void ReadSocket(bool until_doorbell);
  // The peer has gone, or breaks the rules of the socket.
  bool hung_up() const { return hung_up_; }
  // The registered memory of the peer; null: it does not share. Its values are hostile.
  const RegionEntry* peer_table() const {
    return peer_table_ ? reinterpret_cast<const RegionEntry*>(peer_table_->data()) : nullptr;
  }
  // Null: the peer has not shared this buffer, or not for writing.
  const Mapping* PeerBuffer(std::uint32_t id, bool for_writing) {
    // The next access is probably to the same buffer.
    const bool same = !peer_buffers_.empty() && peer_buffers_[0].id == id;
    if (!same && !ToFront(id)) return nullptr;
    return for_writing && !peer_buffers_[0].writable ? nullptr : &peer_buffers_[0].mapping;
  }
  // True once for each borrowed buffer of the peer: a request that goes through the ring asks for it.
  bool ShouldAskFor(std::uint32_t id);

 private:
  struct Buffer {
    std::uint32_t id = 0;
    Mapping mapping;
    bool writable = true;
  };
  struct Given {
    std::uint32_t id = 0;
    std::uint64_t size_for_sends = 0;
  };
  bool ToFront(std::uint32_t id);
  void SendTable();
  Result<FdMessage> ReceiveNext(std::span<std::byte> bytes, std::uint32_t* sender);
  // Null: the peer does not get it.
  const Given* Give(std::uint32_t id);
  void Adopt(const ShareMessage& message, UniqueFd fd, std::uint32_t sender);

  SoftQueuePair& queue_pair_;
  ShmRings& rings_;
  PeerProcess& peer_process_;
  const bool enabled_;
  bool hung_up_ = false;
  bool table_shown_ = false;
  bool table_comes_ = false;  // The next datagram is the peer's table.
  bool heard_ = false;        // A datagram of the peer was read.
  std::shared_ptr<const Mapping> peer_table_;
  std::vector<Buffer> peer_buffers_;
  std::vector<Given> shared_buffers_;
  std::vector<std::uint32_t> asked_for_;
};

}  // namespace nd::provider::soft
