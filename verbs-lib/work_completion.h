// SPDX-License-Identifier: Apache-2.0
// What a completion of the library is to a verbs program. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "nd/types.h"

namespace nd::verbs_lib {

// The context of a completion is the queue pair's number. Returns false when the queue pair is gone; the
// completion is then dropped.
bool ToWorkCompletion(const Completion& from, ibv_wc* to);
ibv_wc_status ToWorkStatus(StatusCode code, RequestType type);

}  // namespace nd::verbs_lib
