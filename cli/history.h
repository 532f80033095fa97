// SPDX-License-Identifier: Apache-2.0
// Past connections as rows; `history` lists them, `trace` reads why its own ended.
#pragma once

#include "cli/format.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

Value HistoryValue(const ndbroker::v1::HistoryRow& past);
Shape HistoryShape();

}  // namespace nd::cli
