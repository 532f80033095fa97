// SPDX-License-Identifier: Apache-2.0
// For the other sources of requests on Windows.
#pragma once

#include "base/os/requests.h"

namespace nd::os {

// Any thread. Requests::Wait() returns it.
void Arrive(Request request);

}  // namespace nd::os
