// SPDX-License-Identifier: Apache-2.0
// The entry of ndbrokerd-services.so.
#include "daemon/server/late_services.h"

extern "C" {
extern const nd::service::LateEntry ndbrokerd_late_services;  // kLateEntryName.
const nd::service::LateEntry ndbrokerd_late_services = {NDBROKER_VERSION, nd::service::MakeLateServices};
}
