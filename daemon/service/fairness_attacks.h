// SPDX-License-Identifier: Apache-2.0
// Tests only: the attacks that the program runs when it is started as the greedy user of
// fairness_process_test.cc. Each prints a line when it is ready and continues until it is killed.
#pragma once

#include <string>

namespace nd::service {

// Prints its line after `refusals` of its `count` connects were refused.
int ConnectToMyself(const std::string& directory, int count, int refusals);
int HoldConnectors(const std::string& directory, int count);

}  // namespace nd::service
