// SPDX-License-Identifier: Apache-2.0
// The checks of `ndctl doctor`; `debug bundle` includes the report.
#pragma once

#include "cli/context.h"

namespace nd::cli {

struct Checkup {
  Value::Array rows;
  std::size_t passed = 0, warned = 0, failed = 0;
};

// Never fails: a broker that does not answer is a finding of the report.
Checkup Examine(Context& context);
Shape CheckupShape();

}  // namespace nd::cli
