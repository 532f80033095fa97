// SPDX-License-Identifier: Apache-2.0
// The text by which the probe process describes the adapters of one DLL. The DLL of a vendor runs in that
// process alone, so that a fault in it does not end the broker. Pure functions.
//
//   adapter PROPERTY=NUMBER ... address=IP ...      one line for each adapter
//   failed SENTENCE                                 no adapter can be used, for this reason
//   done                                            the last line of a probe that came to its end
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "nd/status.h"
#include "nd/types.h"

namespace nd::provider::networkdirect {

std::string LineOf(const AdapterInfo& info);

// The adapters, without name and provider. DEVICE_NOT_READY: the probe failed, or did not come to its end;
// `exit_code` is that of its process. REMOTE_ERROR: the text is not one of a probe.
Result<std::vector<AdapterInfo>> ReadProbe(std::string_view text, std::uint32_t exit_code);

}  // namespace nd::provider::networkdirect
