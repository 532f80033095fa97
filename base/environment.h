// SPDX-License-Identifier: Apache-2.0
// What the environment says, for code that is linked into applications.
#pragma once

namespace nd {

// Returns null when the variable is not set, or when this process has more rights than the user who started
// it (set-user-ID, file capabilities): that user's environment must not choose the broker that this process
// trusts. Any thread, as long as no thread changes the environment.
const char* EnvironmentVariable(const char* name);

}  // namespace nd
