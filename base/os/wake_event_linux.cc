// SPDX-License-Identifier: Apache-2.0
#include <sys/eventfd.h>

#include "base/os/wake_event.h"

namespace nd::os {

WakeEvent::WakeEvent() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void WakeEvent::Set() const {
  ::eventfd_write(fd_.get(), 1);
}

void WakeEvent::Clear() const {
  eventfd_t value;
  ::eventfd_read(fd_.get(), &value);
}

}  // namespace nd::os
