// SPDX-License-Identifier: Apache-2.0
// The application of the races: threads that do to one connector at once whatever can be done to it.
#pragma once

namespace nd::crash {

// nd_crash --app: serves the test on descriptor 3.
int RunRaceApp();

}  // namespace nd::crash
