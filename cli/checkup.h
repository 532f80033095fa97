// SPDX-License-Identifier: Apache-2.0
// The whole examination behind `ndctl doctor`; `debug bundle` keeps its report.
#pragma once

#include "cli/context.h"

namespace nd::cli {

struct Checkup {
  Value::Array rows;
  std::size_t passed = 0, warned = 0, failed = 0;
};

// Never fails: a broker that does not answer is a finding.
Checkup Examine(Context& context);
Shape CheckupShape();

}  // namespace nd::cli
