// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>

#include "base/os/thread.h"

namespace nd::os {

void NameThread(std::thread& thread, const char* name) {
  ::pthread_setname_np(thread.native_handle(), name);
}

void NameThisThread(const char* name) {
  ::pthread_setname_np(::pthread_self(), name);
}

}  // namespace nd::os
