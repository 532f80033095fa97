// SPDX-License-Identifier: Apache-2.0
// Converts rows of the history, and what an administrator asks of it, from and to messages. Any thread.
#pragma once

#include "daemon/state/history_row.h"
#include "nd/status.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::service {

void ToProto(const state::HistoryRow& row, ndbroker::v1::HistoryRow* out);
// INVALID_PARAMETER names the field, its value and the expected value.
Result<state::HistoryFilter> ToFilter(const ndbroker::v1::HistoryRequest& request);

}  // namespace nd::service
