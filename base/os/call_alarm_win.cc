// SPDX-License-Identifier: Apache-2.0
// Nothing to interrupt: the mode of a socket belongs to the handle's process, so that another process cannot
// make calls of this one wait.
#include "base/os/call_alarm.h"

namespace nd::os {

class CallAlarm::Impl {};

CallAlarm::CallAlarm(Duration longest) : longest_(longest) {}
CallAlarm::~CallAlarm() = default;

void CallAlarm::Set() {}
void CallAlarm::Clear() {}

}  // namespace nd::os
