// SPDX-License-Identifier: Apache-2.0
// The sending half of a same-host connection: a small message is one cache line of the ring, a large one is
// sent in pieces or by reference, and Writes and Reads of memory that this side reaches are copied directly.
//
// Thread rule: under the lock of the queue pair.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "provider/soft/qp/shm/shared_state.h"
#include "provider/soft/qp/transfer/partial_request.h"

namespace nd::provider::soft {

class ShmSender {
 public:
  explicit ShmSender(ShmState& state) : state_(state) {}

  // Transmit() may find something to do.
  bool HasWork() {
    const WorkRing<InitiatorRequest>& requests = state_.queue_pair.initiator();
    return requests.next != requests.head || busy() || !state_.responses.empty();
  }
  // The common cases of a request that was just posted, with nothing ahead of it: a Send of one record, and a
  // Write, Read or atomic operation of mapped memory, which is complete afterwards. Returns false in any
  // other case, which is for Transmit().
  bool StartAtOnce();
  // As Transport::CopyAtOnce().
  bool CopyAtOnce(const OneSided& request);
  // Answers Reads and starts requests within a budget. Returns true when data moved.
  bool Transmit();
  // A request is half sent, or a record about one waits for room.
  bool busy() const { return partial_.active() || abandon_wanted_; }
  // The requests have no owner any more.
  void OnFlush();

 private:
  enum class Path { kRing, kReference, kDirect };

  bool SendAtOnce(InitiatorRequest& posted, std::uint64_t position);
  bool StartCopy(InitiatorRequest& posted);
  // --- sender.cc: through the ring
  // They return false when there is no room.
  bool Start(InitiatorRequest& request);
  bool StartRead(InitiatorRequest& request);
  bool ContinuePartial(std::size_t* budget);
  bool SendPieces(InitiatorRequest& request, std::size_t* budget);
  bool Respond();
  // Where the peer finds memory of this side.
  struct Reference {
    std::uint32_t buffer = 0;
    std::uint64_t place = 0;
  };
  std::optional<Reference> ReferenceTo(const Sge& sge) const;
  // Returns nothing when the peer cannot be given the memory.
  std::optional<Reference> Share(const Sge& sge);
  bool FillByReference(Slot& slot, std::uint32_t limit);
  bool CanGoByReference(const InitiatorRequest& request);
  // The immediate data of the partial Write, whose bytes are published or copied.
  void PublishImmediate(const InitiatorRequest& request);
  void PublishPiece(Slot& slot, const InitiatorRequest& request, std::uint64_t position, bool last);
  // --- direct_copy.cc
  // Memory of the peer.
  struct PeerPlace {
    std::byte* here = nullptr;  // Mapped in this process; null: reached by a call of the system.
    std::uint64_t there = 0;    // In the process of the peer.
    bool borrowed = false;      // The peer shares its program's own memory.
  };
  // Nothing is returned for the first request for memory that the peer may give, and the caller sends it
  // through the ring, which asks for the memory.
  std::optional<PeerPlace> FindPlace(const InitiatorRequest& request, std::uint64_t address,
                                     std::uint32_t length);
  // The common case: a Buffer or borrowed memory of the peer that is mapped here. Null in any other case, and
  // for a request that fails a check. Both between the two stores of the hazard.
  std::byte* FindMapped(const OneSided& request);
  // Calls `copy` with that memory. Returns false when there is none.
  template <typename Copy>
  bool WithMapped(const OneSided& request, Copy copy);
  bool Direct(InitiatorRequest& request, std::size_t* budget, bool* waits);
  bool CopyThere(InitiatorRequest& request, std::byte* remote, std::size_t* budget);
  // All bytes were moved, or memory of this side cannot take them.
  void CompleteCopy(InitiatorRequest& request, bool good);
  bool FinishDirect(InitiatorRequest& request, bool good, std::size_t* budget);
  bool LeaveDirect(InitiatorRequest& request, std::size_t* budget);
  // --- process_copy.cc
  // Ordinary and borrowed memory: requests of which this one must not get ahead are in the ring.
  bool Busy(Op op) const;
  Way WayOf(const InitiatorRequest& request);
  bool CopyByProcess(InitiatorRequest& request, std::uint64_t remote, std::size_t* budget);

  ShmState& state_;
  PartialRequest partial_;
  Path partial_path_ = Path::kRing;
  bool abandon_wanted_ = false;  // The receiver has pieces of a Send that was flushed.
};

}  // namespace nd::provider::soft
