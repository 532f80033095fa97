// SPDX-License-Identifier: Apache-2.0
// Past connections as rows, for `history` and `trace`.
#pragma once

#include "cli/format.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

Value HistoryValue(const ndbroker::v1::HistoryRow& past);
Shape HistoryShape();

}  // namespace nd::cli
