// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/services.h"

namespace nd::service {

std::unique_ptr<Services> MakeServices(ServicesHost) {
  return std::make_unique<Services>();
}

}  // namespace nd::service
