// SPDX-License-Identifier: Apache-2.0
// Runs ndbroker-ndprobe.exe, which lies beside the program of the broker, for one DLL.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"
#include "provider/networkdirect/cm/catalogue_win.h"

namespace nd::provider::networkdirect {

// Blocks until the probe has ended; one that takes longer than `patience` is ended. DEVICE_NOT_READY,
// REMOTE_ERROR: as ReadProbe(). IO_TIMEOUT: the DLL does not answer.
Result<std::vector<AdapterInfo>> Probe(const CatalogueEntry& entry, std::chrono::milliseconds patience);

}  // namespace nd::provider::networkdirect
