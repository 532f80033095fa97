// SPDX-License-Identifier: Apache-2.0
// Ids of inbound attempts: one sequence for requests by TCP and from this host. Loop thread only.
#pragma once

#include <cstdint>

#include "provider/cm.h"

namespace nd::provider::soft {

class InboundIds {
 public:
  CmId Next() { return static_cast<CmId>(kInboundBit | ++last_); }

 private:
  std::uint64_t last_ = 0;
};

}  // namespace nd::provider::soft
