// SPDX-License-Identifier: Apache-2.0
// The Reads of this side whose responses are not complete, in the order of their requests.
//
// Thread rule: under the lock of the queue pair. The sender starts Reads, the receiver places their
// responses.
#pragma once

#include <cstdint>
#include <utility>

#include "provider/soft/qp/queue_pair.h"
#include "provider/soft/qp/transfer/fixed_ring.h"
#include "provider/soft/qp/transfer/partial_request.h"
#include "provider/soft/qp/transfer/placement.h"

namespace nd::provider::soft {

// Transports add fields.
struct OutboundRead {
  std::uint64_t request = kNoRequest;  // In the initiator queue. kNoRequest: its response is dropped.
  std::uint32_t size = 0, done = 0;
  SgeCursor sink;

  // A piece of a response may have this size here, and be the last one or not.
  bool Expects(std::uint32_t piece, bool last) const {
    return piece <= size - done && last == (piece == size - done);
  }
};

template <typename Read>
class OutboundReads {
 public:
  OutboundReads(SoftQueuePair& queue_pair, std::uint32_t limit) : queue_pair_(queue_pair), reads_(limit) {}

  bool empty() const { return reads_.empty(); }
  bool full() const { return reads_.full(); }
  std::uint32_t started() const { return reads_.pushed(); }
  Read& oldest() { return reads_.oldest(); }

  // The caller checks full().
  Read& Start(const Read& read) {
    Read& started = reads_.Push(read);
    QpCounters& counters = queue_pair_.counters();
    counters.reads_in_flight.store(reads_.size(), std::memory_order_relaxed);
    if (reads_.size() > counters.reads_in_flight_max.load(std::memory_order_relaxed)) {
      counters.reads_in_flight_max.store(reads_.size(), std::memory_order_relaxed);
    }
    return started;
  }

  // Places a piece that oldest() expects. Returns false when memory of this side cannot take it: the
  // connection has ended.
  template <typename Copy>
  bool Place(std::uint32_t size, Copy&& copy) {
    Read& read = reads_.oldest();
    if (read.request != kNoRequest &&
        !PlaceInto(queue_pair_, read.sink, size, kAllowLocalWrite | kRdmaReadSink,
                   std::forward<Copy>(copy))) {
      if (queue_pair_.MemoryGone()) queue_pair_.WithholdRequest(read.request);
      queue_pair_.EndConnection(EndCode::kLocal);
      return false;
    }
    read.done += size;
    QpCounters::Add(queue_pair_.counters().rx_bytes, size);
    return true;
  }

  // Its last piece was placed. The caller completes the request.
  Read& Finish() {
    Read& read = reads_.Pop();
    queue_pair_.counters().reads_in_flight.store(reads_.size(), std::memory_order_relaxed);
    return read;
  }

  // The requests were flushed. `forget` removes the transport's own data of one Read.
  template <typename Function>
  void Flush(Function&& forget) {
    reads_.ForEach([&](Read& read) {
      read.request = kNoRequest;
      forget(read);
    });
  }

 private:
  SoftQueuePair& queue_pair_;
  FixedRing<Read> reads_;
};

}  // namespace nd::provider::soft
