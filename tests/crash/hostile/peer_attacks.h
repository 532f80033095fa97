// SPDX-License-Identifier: Apache-2.0
// The attacks of hostile_peer; see docs/reliability.md for their rows. None of these functions returns.
#pragma once

#include "tests/crash/hostile/attack.h"

namespace nd::hostile {

// peer_handshakes.cc: until a connection is established, the broker is the victim.
void SlowHandshakes(const Target&);
void FloodHandshakes(const Target&);
void FloodFullBacklog(const Target&);
void SilentConnections(const Target&);
void MutatedRequests(const Target&);
void PrivateDataSizes(const Target&);
void CutRequests(const Target&);
void MutatedConfirmations(const Target&);

// peer_frames.cc: afterwards, the application is.
void LengthsThatLie(const Target&);
void FirstFrameMalformed(const Target&);
void GuessTokens(const Target&);
void WriteOutside(const Target&);
void WrongSequences(const Target&);
void ResponsesNobodyAskedFor(const Target&);
void FloodReads(const Target&);
void WrongChecksums(const Target&);
void MixedMessages(const Target&);
void ForeignInvalidates(const Target&);
void WrongFirstFrame(const Target&);
void EmptyOperations(const Target&);
void TinySegments(const Target&);
void NeverDrain(const Target&);
void RandomFrames(const Target&);

// peer_ring.cc: a process of the same host at the other end of a segment of shared memory.
void FlipBits(const Target&);
void FlipIndexes(const Target&);
void PunchHoles(const Target&);
void ProduceForEver(const Target&);
void ClaimAccess(const Target&);
void StopInTheMiddle(const Target&);
void DieInTheMiddle(const Target&);
void LookForOldData(const Target&);

}  // namespace nd::hostile
