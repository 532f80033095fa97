// SPDX-License-Identifier: Apache-2.0
// Events as rows, for `events` and `debug bundle`.
#pragma once

#include "cli/format.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::cli {

Value EventValue(const ndbroker::v1::WatchEvent& event);
Shape EventShape();

}  // namespace nd::cli
