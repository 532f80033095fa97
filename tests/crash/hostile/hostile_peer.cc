// SPDX-License-Identifier: Apache-2.0
// Peers that attack a broker and an application: hosts on the wire (rows W1 to W17 of the threat model,
// docs/reliability.md), and processes at the other end of shared memory (rows M1 to M9).
#include <array>

#include "tests/crash/hostile/arena.h"
#include "tests/crash/hostile/peer_attacks.h"

namespace nd::hostile {

std::span<const Attack> Attacks() {
  static constexpr std::array kAll = {
      Attack{"W1.slow-handshakes", 1, SlowHandshakes},
      Attack{"W1.silent-connections", 1, SilentConnections},
      Attack{"W2.flood", 2, FloodHandshakes},
      Attack{"W2.full-backlog", 1, FloodFullBacklog},
      Attack{"W3.mutated-requests", 1, MutatedRequests},
      Attack{"W4.private-data-sizes", 1, PrivateDataSizes},
      Attack{"W5.lengths-that-lie", 1, LengthsThatLie},
      Attack{"W6.first-frame-malformed", 1, FirstFrameMalformed},
      Attack{"W7.guess-tokens", 1, GuessTokens},
      Attack{"W8.write-outside", 1, WriteOutside},
      Attack{"W9.wrong-sequences", 1, WrongSequences},
      Attack{"W10.unasked-responses", 1, ResponsesNobodyAskedFor},
      Attack{"W10.flood-reads", 1, FloodReads},
      Attack{"W11.wrong-checksums", 1, WrongChecksums},
      Attack{"W12.mixed-messages", 1, MixedMessages},
      Attack{"W12.random-frames", 1, RandomFrames},
      Attack{"W13.foreign-invalidates", 1, ForeignInvalidates},
      Attack{"W14.wrong-first-frame", 1, WrongFirstFrame},
      Attack{"W15.empty-operations", 1, EmptyOperations},
      Attack{"W15.tiny-segments", 1, TinySegments},
      Attack{"W16.never-drain", 1, NeverDrain},
      Attack{"W17.cut-requests", 1, CutRequests},
      Attack{"W17.mutated-confirmations", 1, MutatedConfirmations},
      Attack{"M1.flip-indexes", 1, FlipIndexes},
      Attack{"M2.flip-bits", 1, FlipBits},
      Attack{"M3.punch-holes", 1, PunchHoles},
      Attack{"M6.produce-for-ever", 1, ProduceForEver},
      Attack{"M7.stop-in-the-middle", 1, StopInTheMiddle},
      Attack{"M7.die-in-the-middle", 1, DieInTheMiddle},
      Attack{"M7.claim-access", 1, ClaimAccess, true},
      Attack{"M9.look-for-old-data", 1, LookForOldData},
  };
  return kAll;
}

}  // namespace nd::hostile

int main(int argc, char** argv) {
  return nd::hostile::Main(argc, argv, true);
}
