// SPDX-License-Identifier: Apache-2.0
// Loads a DLL of Network Direct, and asks it for its adapters. A call into the DLL of a vendor may do
// anything: the broker calls these functions in the probe process alone.
#pragma once

#include <string>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/networkdirect/com_win.h"
#include "provider/networkdirect/messages.h"

namespace nd::provider::networkdirect {

// `path` in UTF-8. The DLL stays loaded for the life of the process, because its threads may run on.
// DEVICE_NOT_READY: it cannot be loaded, or has no provider of this class.
Result<Com<spi::IND2Provider>> LoadProvider(const std::string& path, const ClassId& class_id);

// The adapters behind the addresses of a provider, without name and provider.
Result<std::vector<AdapterInfo>> QueryAdapters(spi::IND2Provider& provider);

}  // namespace nd::provider::networkdirect
