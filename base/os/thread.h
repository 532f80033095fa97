// SPDX-License-Identifier: Apache-2.0
// The name of a thread in debuggers and in the list of threads of a process. At most 15 characters.
#pragma once

#include <thread>

namespace nd::os {

void NameThread(std::thread& thread, const char* name);
void NameThisThread(const char* name);

// Starts a thread that runs `run(argument)` for the rest of the process. Signals go to other threads, except
// those of its own faults. Returns false when the system refuses.
bool StartLastingThread(const char* name, void (*run)(void* argument), void* argument);

}  // namespace nd::os
