// SPDX-License-Identifier: Apache-2.0
#include "daemon/server/late_services.h"

namespace nd::service {

Result<std::unique_ptr<LateServices>> LoadLateServices(const ServicesHost& host, Records& records) {
  return MakeLateServices(host, records);
}

}  // namespace nd::service
