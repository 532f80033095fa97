// SPDX-License-Identifier: Apache-2.0
// One established connection: TCP/iWARP or a shared-memory segment. The queue pair decides what happens,
// the transport moves it.
//
// Thread rule: every call is made under the queue pair's lock. A transport reports through the queue pair
// (Complete..., Fail..., OnPeerGoodbye, OnTransportLost) and may call it from inside any of these; once the
// queue pair is no longer `live()` it touches nothing but its own members.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::soft {

// Why this side ends the connection, in terms of what was wrong with the peer's or our own doing.
enum class EndCode : std::uint32_t {
  kNone = 0,
  kRemoteAccess = 1,  // The peer named memory that it may not touch.
  kNoReceive = 2,     // The peer's Send found no receive within the time.
  kTooLong = 3,       // The peer's Send was longer than the receive.
  kProtocol = 4,      // The peer broke the protocol.
  kLocal = 5,         // A request of this side failed (its own memory was not registered, ...), or it let go.
};

// What whoever sleeps must watch of one connection.
struct SleepInfo {
  int fd = -1;
  int events = 0;     // Of poll(), and of epoll, which has the same numbers.
  bool busy = false;  // Do not sleep: there is work.
  Time deadline = Time::max();
};

class Transport {
 public:
  virtual ~Transport() = default;

  // Becomes readable when Progress(true) has something to do and it was armed.
  virtual int fd() const = 0;
  // Starts what the initiator queue holds, as far as there is room. Called after each post.
  virtual void Transmit() = 0;
  // Moves data both ways within a budget. `look_at_fd`: reads the descriptor too (hang-up, doorbells), not
  // only what is seen without a system call. True when something moved.
  virtual bool Progress(bool look_at_fd) = 0;
  // Asks to be woken through fd(), in two steps. True from the first: a GlobalBarrier() is needed between
  // them, one for all that a sleeper watches. `barrier`: it was made. True from the second: there is work
  // already.
  virtual bool BeginArm() { return false; }
  virtual bool Arm(bool barrier) = 0;
  virtual bool wants_write() const = 0;             // Watch fd() for room as well.
  virtual bool wants_read() const { return true; }  // False: what waits in fd() cannot be taken now.
  virtual bool wants_end() const { return false; }  // All the same, it matters when the peer ends the stream.
  // True once after a wake-up was used up by somebody who may not be the one it was meant for.
  virtual bool TakeRearm() { return false; }
  virtual bool runnable() const = 0;  // Could go on at once; only its budget stopped it.
  virtual Time deadline() const = 0;  // When Progress must run even if nothing comes; max(): never.

  // Receives were posted: a held Send may go on.
  virtual void OnReceivePosted() = 0;
  // The initiator queue was flushed: requests in flight are orphans, their memory must not be touched.
  virtual void OnFlushInitiator() = 0;
  // The receive that a half-arrived Send was filling is gone: swallow the rest.
  virtual void OnFlushReceive() = 0;

  // Nothing more will be sent. The transport is `finished()` when that is on its way.
  virtual void SayGoodbye() = 0;
  virtual bool finished() const = 0;
  // Tells the peer why, as far as possible at once, before the transport is destroyed.
  virtual void SayTerminate(EndCode code) = 0;
  // Once it is lost: which side ended it and for what, where that is known; else SUCCESS.
  virtual Status cause() const = 0;

  // Waits (bounded) until the peer is not touching `stag` directly. False: it did not stop.
  virtual bool PeerUses(std::uint32_t stag) = 0;
  // Time passed the deadline().
  virtual void OnDeadline(Time now) = 0;
  // In a forked child: forget everything, close nothing.
  virtual void Abandon() = 0;
};

}  // namespace nd::provider::soft
