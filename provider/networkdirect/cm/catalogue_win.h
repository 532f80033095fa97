// SPDX-License-Identifier: Apache-2.0
// The providers of Network Direct in the Winsock catalogue, as the system lists them. Any thread.
#pragma once

#include <string>
#include <vector>

#include "provider/networkdirect/messages.h"

namespace nd::provider::networkdirect {

struct CatalogueEntry {
  std::string dll;  // UTF-8
  ClassId class_id{};
};

// Without ndbrokernd.dll, whose adapters are the broker's own.
std::vector<CatalogueEntry> ReadCatalogue();

}  // namespace nd::provider::networkdirect
