// SPDX-License-Identifier: Apache-2.0
#include "daemon/metrics/admin_tally.h"

namespace nd::service {

AdminTally::Counts AdminTally::counts() const {
  std::lock_guard lock(mutex_);
  return counts_;
}

void AdminTally::Add(std::string_view method, std::string_view status) {
  std::lock_guard lock(mutex_);
  ++counts_[{std::string(method), std::string(status)}];
}

}  // namespace nd::service
