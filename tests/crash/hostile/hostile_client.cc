// SPDX-License-Identifier: Apache-2.0
// Local applications that attack a broker of their host: the rows L1 to L15 of the threat model
// (docs/reliability.md), and every fault that such an attack ever found.
#include <array>

#include "tests/crash/hostile/arena.h"
#include "tests/crash/hostile/client_attacks.h"

namespace nd::hostile {

std::span<const Attack> Attacks() {
  static constexpr std::array kAll = {
      Attack{"L1.steal-ports", 2, StealPorts},
      Attack{"L1.take-all-ports", 1, TakeAllPorts},
      Attack{"L2.replay-tokens", 1, ReplayTokens},
      Attack{"L3.inherit-sessions", 1, InheritSessions},
      Attack{"L4.open-lanes", 2, OpenConnections},
      Attack{"L4.open-streams", 2, OpenStreamConnections},
      Attack{"L4.connect-and-go", 1, ConnectAndGo},
      Attack{"L5.never-acknowledge", 2, NeverAcknowledge},
      Attack{"L6.tamper-with-pages", 1, TamperWithPages},
      Attack{"L7.linger-and-go", 1, LingerAndGo},
      Attack{"L7.send-descriptors", 1, SendDescriptors},
      Attack{"L8.resets", 1, FloodResets},
      Attack{"L8.settings", 1, FloodSettings},
      Attack{"L8.pings", 1, FloodPings},
      Attack{"L8.continuations", 1, FloodContinuations},
      Attack{"L8.empty-data", 1, FloodEmptyData},
      Attack{"L8.resets-after-hello", 1, FloodResetsAfterHello},
      Attack{"L9.never-read", 1, NeverRead},
      Attack{"L10.connect-to-myself", 4, ConnectToMyself},
      Attack{"L10.connect-to-the-honest", 1, ConnectToTheHonest},
      Attack{"L10.remember-lists", 1, RememberLists},
      Attack{"L11.occupy-memory", 1, OccupyMemory},
      Attack{"L12.impersonate", 1, ImpersonateTheBroker},
      Attack{"L13.die-in-hordes", 1, DieInHordes},
      Attack{"L13.hold-and-die", 1, HoldAndDie},
      Attack{"L14.names", 1, NameEverything},
      Attack{"L15.guess-handles", 1, GuessHandles},
      Attack{"L15.forge-reattach", 1, ForgeReattach},
      Attack{"L15.garbage", 1, SendGarbage},
      Attack{"P4.silent-scrapers", 1, ScrapeInSilence},
  };
  return kAll;
}

}  // namespace nd::hostile

int main(int argc, char** argv) {
  return nd::hostile::Main(argc, argv, false);
}
