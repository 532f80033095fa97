// SPDX-License-Identifier: Apache-2.0
// NDBROKER_VERBS_SPIN (`ndctl run --spin`): a thread that polls for the program, so that a peer's one-sided
// request does not wait until a sleeping thread wakes. It occupies one processor as long as the program has a
// completion queue.
//
// Thread rule: any thread.
#pragma once

#include "nd/nd.h"

namespace nd::verbs_lib {

// Drives the queue pairs of this completion queue from now on, when the program was started so.
void SpinOn(nd::CompletionQueue* queue);
// Returns when the thread does not use the queue any more.
void StopSpinningOn(nd::CompletionQueue* queue);

}  // namespace nd::verbs_lib
