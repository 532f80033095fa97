// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace nd {

// What happened to an open adapter. kDisabled: by the administrator; its connectors, listeners and shared
// endpoints stay dead, and new ones can be made after kEnabled. kRemoved: the adapter is gone for good.
enum class AdapterChange : std::uint8_t { kEnabled, kDisabled, kRemoved };

}  // namespace nd
