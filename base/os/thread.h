// SPDX-License-Identifier: Apache-2.0
// The name of a thread in debuggers and in the list of threads of a process. At most 15 characters.
#pragma once

#include <thread>

namespace nd::os {

void NameThread(std::thread& thread, const char* name);
void NameThisThread(const char* name);

}  // namespace nd::os
