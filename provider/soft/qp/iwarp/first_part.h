// SPDX-License-Identifier: Apache-2.0
// Decides when a batch of frames goes to the socket before it is full.
//
// A message takes the time to send it and the time to receive it, one after the other. Where the peer waits
// for it, its first frames go alone: the peer receives, checks and places them while this side frames and
// sends the rest. In a stream the peer has earlier messages to receive, and full batches cost less.
//
// Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nd::provider::soft {

// A further system call costs as much as sending this many bytes.
inline constexpr std::size_t kFirstPart = 16 * 1024;

struct BatchBegin {
  bool inside_message = false;  // The batch begins with the rest of a message.
  bool unconfirmed = false;     // The peer may not have received earlier requests yet.
  bool heard = false;           // The peer sent a message after the last batch.
};

// The peer has nothing to receive before this batch.
constexpr bool PeerWaits(const BatchBegin& begin) {
  return !begin.inside_message && (!begin.unconfirmed || begin.heard);
}

// `inside_message`: the rest of a message follows the frames of `bytes` bytes.
constexpr bool EndsFirstPart(bool peer_waits, bool inside_message, std::size_t bytes) {
  return peer_waits && inside_message && bytes >= kFirstPart;
}

}  // namespace nd::provider::soft
