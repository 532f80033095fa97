// SPDX-License-Identifier: Apache-2.0
// The facts of a diagnosis that only the system knows.
#pragma once

#include <vector>

#include "daemon/service/diagnosis.h"
#include "nd/types.h"

namespace nd::service {

// Fills in what the kernel, the directory and the devices say. May wait up to half a second for each of
// `ports` (addresses with the TCP port that peers use): not for the loop.
void GatherHealth(const std::string& directory, const std::vector<Address>& ports, HealthFacts* facts);

}  // namespace nd::service
