// SPDX-License-Identifier: Apache-2.0
#include "base/os/wake_event.h"

#include "base/os/object_win.h"

namespace nd::os {

WakeEvent::WakeEvent() {
  Handle event(::CreateEventW(nullptr, /*bManualReset=*/TRUE, /*bInitialState=*/FALSE, nullptr));
  if (event) {
    fd_.reset(PutObject(std::make_shared<EventObject>(std::move(event))));
  } else {
    SetErrno(::GetLastError());
  }
}

void WakeEvent::Set() const {
  if (const auto event = FindAs<EventObject>(fd_.get())) ::SetEvent(event->get());
}

void WakeEvent::Clear() const {
  if (const auto event = FindAs<EventObject>(fd_.get())) ::ResetEvent(event->get());
}

}  // namespace nd::os
