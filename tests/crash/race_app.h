// SPDX-License-Identifier: Apache-2.0
// The application of the races: threads that run every operation on one connector at once.
#pragma once

namespace nd::crash {

// nd_crash --app: serves the test on descriptor 3.
int RunRaceApp();

}  // namespace nd::crash
