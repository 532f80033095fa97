// SPDX-License-Identifier: Apache-2.0
// Gathers the facts of a diagnosis from the system.
#pragma once

#include <vector>

#include "daemon/admin/diagnosis.h"
#include "nd/types.h"

namespace nd::service {

// Fills in the facts from the kernel, the directory and the devices. May wait up to half a second for each of
// `ports` (addresses with the TCP port of peers), so it must not run on the loop.
void GatherHealth(const std::string& directory, const std::vector<Address>& ports, HealthFacts* facts);

}  // namespace nd::service
