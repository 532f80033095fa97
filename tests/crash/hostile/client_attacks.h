// SPDX-License-Identifier: Apache-2.0
// The attacks of hostile_client; see docs/reliability.md for their rows. None of these functions returns.
#pragma once

#include "tests/crash/hostile/attack.h"

namespace nd::hostile {

// client_doors.cc: attacks of a process before it has a session, and with the session's socket.
void OpenConnections(const Target&);
void OpenStreamConnections(const Target&);
void ConnectAndGo(const Target&);
void DieInHordes(const Target&);
void ReplayTokens(const Target&);
void InheritSessions(const Target&);
void NeverRead(const Target&);
void NeverAcknowledge(const Target&);
void SendDescriptors(const Target&);
void SendGarbage(const Target&);
void NameEverything(const Target&);
void ImpersonateTheBroker(const Target&);
void ScrapeInSilence(const Target&);
void FloodResets(const Target&);
void FloodSettings(const Target&);
void FloodPings(const Target&);
void FloodContinuations(const Target&);
void FloodEmptyData(const Target&);
void FloodResetsAfterHello(const Target&);

// client_objects.cc: attacks by requests of a session.
void StealPorts(const Target&);
void TakeAllPorts(const Target&);
void GuessHandles(const Target&);
void ForgeReattach(const Target&);
void ConnectToMyself(const Target&);
void ConnectToTheHonest(const Target&);
void HoldAndDie(const Target&);
void RememberLists(const Target&);
void OccupyMemory(const Target&);
void LingerAndGo(const Target&);
void TamperWithPages(const Target&);

}  // namespace nd::hostile
