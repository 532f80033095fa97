// SPDX-License-Identifier: Apache-2.0
// One established connection: TCP/iWARP or a shared-memory segment. The queue pair decides, and the transport
// moves data.
//
// Thread rule: every call is made under the queue pair's lock. A transport reports through the queue pair
// (Complete..., Fail..., OnPeerGoodbye, OnTransportLost) and may call it from inside any of these; once the
// queue pair is no longer `live()`, it uses only its own members.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/clock.h"
#include "base/os/word_sleep.h"
#include "nd/status.h"
#include "nd/types.h"
#include "provider/soft/qp/drive/interest.h"
#include "provider/soft/qp/end_code.h"
#include "provider/soft/qp/work_queue.h"

namespace nd::provider::soft {

// The words by which the peer tells that a round has something to do. A poll that finds them unchanged makes
// no round.
struct QuietWords {
  const std::atomic<std::uint32_t>* stamp = nullptr;  // Of the next record. Null: every poll makes a round.
  const std::atomic<std::uint32_t>* consumed = nullptr;  // Null: the peer has consumed everything.
  const std::atomic<std::uint32_t>* end_code = nullptr;
  std::uint32_t stamp_of_record = 0;  // The stamp when that record is there.
  std::uint32_t acknowledged = 0;     // The consumed records that were acknowledged.

  bool Unchanged() const {
    return stamp != nullptr && stamp->load(std::memory_order_acquire) != stamp_of_record &&
           (consumed == nullptr || consumed->load(std::memory_order_relaxed) == acknowledged) &&
           end_code->load(std::memory_order_relaxed) == 0;
  }
};

// A Write, a Read or an atomic operation, and the memory of the peer that it names.
struct OneSided {
  Op op;
  Sge here;
  std::uint32_t token;
  std::uint64_t address;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int fd() const = 0;
  // Starts requests of the initiator queue while there is room. Called after each post.
  virtual void Transmit() = 0;
  // The common cases of Transmit(), of a request that was just posted. Returns false in any other case, and
  // has done nothing then. If *words were right before, they are right afterwards.
  virtual bool StartAtOnce(QuietWords* /*words*/) { return false; }
  // The common case of a Write or a Read of one element: no earlier request is outstanding, and the memory of
  // the peer is mapped here. Its bytes are copied, and the request needs no place in the initiator queue.
  // Returns false in any other case, and has done nothing then.
  virtual bool CopyAtOnce(const OneSided& /*request*/) { return false; }
  // Moves data both ways within a budget. `look_at_fd`: reads the descriptor too (hang-up, doorbells), not
  // only memory. Returns true when data moved.
  virtual bool Progress(bool look_at_fd) = 0;
  // Asks the peer to wake this side through its descriptor. Returns true when a GlobalBarrier() is needed
  // before Settle(); one barrier serves all connections of a sleeper.
  virtual bool Arm() = 0;
  // Called after the first round. Returns true when the peer wakes this side although nobody has armed, so
  // that interest() may be watched at once.
  virtual bool ArmedFromStart() = 0;
  // Behind Settle(): from now on the peer wakes a word instead of the descriptor, until LeaveWord() or Arm().
  // Returns false when it does not, or has something already.
  virtual bool SleepOnWord(os::SleptOn* /*slept_on*/) { return false; }
  // Returns true when the peer has woken it.
  virtual bool LeaveWord() { return false; }
  // Returns the interest to watch after arming. `ordered`: the barrier was made, or no Arm() needed it.
  // `keeps_time`: the sleeper comes back at the deadline; for another one the progress thread keeps it, whose
  // call interest() then demands.
  virtual Interest Settle(bool ordered, bool keeps_time) = 0;
  // The remaining work after data was moved. Also runnable when a thread consumed the wake-up of a sleeper,
  // because the peer sends no other one until Arm() is called again.
  virtual Interest interest() const = 0;

  // Called when no request waits to be started. Sets *words if only the peer can give the next round
  // something to do, and no deadline can; they are valid until the next call of a member that is not const.
  virtual void FindQuietWords(QuietWords* /*words*/) const {}

  // A quiet word has changed. Takes the records and acknowledgements of the peer if nothing else is to be
  // done, and keeps *words right, or sets words->stamp to null for a round. Returns true when data moved;
  // false asks for a round now.
  virtual bool ProgressQuiet(QuietWords* /*words*/) { return false; }

  // Asks the peer to announce all that it publishes in this ready page from now on (drive/ready_page.h).
  // Returns false when it cannot be asked, at least now.
  virtual bool AskToAnnounce(int /*page*/, std::uint32_t /*place*/) { return false; }
  // The peer announces all that it publishes after this.
  virtual bool PeerAnnounces() const { return false; }

  // Receives were posted: a held Send may continue.
  virtual void OnReceivePosted() = 0;
  // The initiator queue was flushed: requests in flight have no owner any more, and their memory must not be
  // accessed.
  virtual void OnFlushInitiator() = 0;
  // The receive of a partly arrived Send was flushed: the rest is dropped.
  virtual void OnFlushReceive() = 0;

  // Sends the goodbye, after which no data follows. The transport is `finished()` when it was sent.
  virtual void SayGoodbye() = 0;
  virtual bool finished() const = 0;
  // Sends the reason to the peer, if possible at once, before the transport is destroyed.
  virtual void SayTerminate(EndCode code) = 0;
  // After the loss: the side that ended it and the reason, if known; else SUCCESS.
  virtual Status cause() const = 0;

  // True while the peer directly accesses memory through `stag`, which has left the table.
  virtual bool PeerTouches(std::uint32_t stag) = 0;
  // True when the process of the peer is known to be there, with this connection.
  virtual bool PeerLives() { return false; }
  // The protection of the queue pair is another one.
  virtual void OnProtection() {}
  // The deadline of interest() has passed.
  virtual void OnDeadline(Time now) = 0;
  // Takes the memory that the transport needs no more once it is lost, to be freed later than the transport.
  virtual std::shared_ptr<void> TakeMemory() = 0;
  // In a forked child: drops all state and closes nothing.
  virtual void Abandon() = 0;
};

}  // namespace nd::provider::soft
