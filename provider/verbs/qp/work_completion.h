// SPDX-License-Identifier: Apache-2.0
// The status of a finished work request, from libibverbs' words to Network Direct's. Pure.
#pragma once

#include <infiniband/verbs.h>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::verbs {

StatusCode FromWcStatus(ibv_wc_status status, bool receive);

// What the failure of a request says about the connection, when nobody here ended it.
DisconnectReason ReasonOf(ibv_wc_status status);
// The same in words; SUCCESS when the device had nothing to say of its own.
Status CauseOf(ibv_wc_status status);

// ibv_post_send and ibv_post_recv.
Status FromPost(int result);

}  // namespace nd::provider::verbs
