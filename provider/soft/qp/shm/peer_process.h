// SPDX-License-Identifier: Apache-2.0
// The process behind a same-host connection. This side copies to and from its ordinary memory by a call of
// the system, where the system allows that.
//
// The kernel tells the number of the process (base/lane_sender.h), so that a peer cannot name another one.
// The process has this connection's segment mapped where it says, so that this side's mark can be read there.
// Each copy begins with the mark and ends when the mark is not there, so that a process that took the number
// of the peer, or a program that the peer has started in its place, is not touched.
//
// Thread rule: under the lock of the queue pair; PeerIdentity: any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/os/process_memory.h"
#include "provider/soft/qp/segment_layout.h"

namespace nd::provider::soft {

struct PeerIdentity {
  std::uint32_t process = 0;  // 0: unknown.
  std::uint64_t place = 0;    // Of this side's mark, in the process of the peer.
  std::atomic<std::uint64_t>* mark = nullptr;

  // True when the process is there, has the segment, and can be reached.
  bool Lives() const;
};

class PeerProcess {
 public:
  // One more than the elements of a request.
  static constexpr std::size_t kMostPieces = os::kMostPieces - 1;

  // `shared`: the segment in this process. `enabled`: each side may reach the other; tells the peer where
  // this side has the segment then.
  PeerProcess(Segment& shared, int side, bool enabled);

  // The kernel told the number of the process; 0: it did not.
  void SetNumber(std::uint32_t process) { identity_.process = process; }
  // The kernel is asked once, when number and place are known.
  bool reachable() { return state_ == State::kReachable || (state_ == State::kUnknown && Find()); }
  // Asks the kernel each time. See PeerIdentity.
  bool Lives() { return (state_ != State::kUnknown || Find()) && identity_.Lives(); }
  // The peer can reach the memory of this process in any case. Asks the kernel, too.
  bool ReachesThis() { return os::IsOpenTo(identity_.process) && Lives(); }
  const PeerIdentity& identity() const { return identity_; }

  // Copies in the order of the pieces, and returns the number of bytes: fewer than all when memory of either
  // process is not there. Whether the peer's memory may be accessed is judged by the caller.
  std::size_t Write(std::span<const os::PieceHere> from, std::uint64_t to);
  std::size_t Read(std::span<const os::PieceHere> to, std::uint64_t from);

 private:
  enum class State { kUnknown, kReachable, kNotReachable };

  bool Find();
  // What is left of `copied` bytes without the mark. The peer is not reached again without it.
  std::size_t WithoutMark(std::size_t copied, bool good);

  SideControl& mine_;
  SideControl& theirs_;
  const std::size_t place_in_segment_;  // Of this side's mark.
  State state_;
  PeerIdentity identity_;
};

}  // namespace nd::provider::soft
