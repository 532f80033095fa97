// SPDX-License-Identifier: Apache-2.0
// Memory of the program's allocator that is shared from the beginning (share_memory/). With `ndctl run
// --no-share-memory` the library of it is not there, and nothing happens here.
#pragma once

namespace nd::verbs_lib {

// The program has opened a device. Any thread; only the first call has an effect.
void LendMemory();

}  // namespace nd::verbs_lib
