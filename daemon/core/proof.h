// SPDX-License-Identifier: Apache-2.0
// What a client shows when it brings an established connection back to a new broker.
//
// The hand-over of a connection carries a proof: a keyed hash of the facts below. Its key outlives the broker
// (state/reattach_key.h), so the next broker can judge the proof without a record of the connection. Who
// never had the connection cannot make the proof, and another user cannot use it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "nd/types.h"
#include "provider/cm.h"

namespace nd::core {

// The facts that a proof confirms: this user had this connection of this adapter.
struct ConnectionFacts {
  std::string adapter;
  Address local, remote;
  bool passive = false;
  std::uint32_t uid = 0;
};

// Returns equal proofs for equal facts, and must behave as a pure function.
using Prove = std::function<provider::Bytes(const ConnectionFacts&)>;

// Compares in constant time. An empty proof equals no proof.
bool SameProof(const provider::Bytes& shown, const provider::Bytes& expected);

}  // namespace nd::core
