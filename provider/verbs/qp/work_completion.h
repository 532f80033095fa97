// SPDX-License-Identifier: Apache-2.0
// Maps the status of a finished work request from libibverbs to Network Direct. Pure functions.
#pragma once

#include <infiniband/verbs.h>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::verbs {

StatusCode FromWcStatus(ibv_wc_status status, bool receive);

// Why the connection ended, judged by a failed request, when this side did not end it.
DisconnectReason ReasonOf(ibv_wc_status status);
// The cause as a Status; SUCCESS when the device reported none.
Status CauseOf(ibv_wc_status status);

// The result of ibv_post_send or ibv_post_recv.
Status FromPost(int result);

}  // namespace nd::provider::verbs
