// SPDX-License-Identifier: Apache-2.0
// The adapters of the broker.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "daemon/core/ids.h"
#include "provider/cm.h"

namespace nd::core {

// One adapter of a provider. A name that vanishes and returns is a new adapter.
struct AdapterState {
  provider::AdapterDescription description;
  bool present = true, enabled = true;
  std::uint32_t listeners = 0;  // That listen.
  std::uint32_t objects = 0;    // Of sessions, on this adapter.
  std::string noted{};          // The problem of the description that was reported last.
};

// The index is the AdapterNo. Adapters are never removed from the table. A new adapter of another network
// takes the place of one that has vanished with all objects on it.
using AdapterTable = std::vector<AdapterState>;

// The adapter of this name that is present, if any.
inline std::optional<AdapterNo> AdapterNamed(const AdapterTable& adapters, std::string_view name) {
  for (AdapterNo no = 0; no < adapters.size(); ++no) {
    if (adapters[no].present && adapters[no].description.info.name == name) return no;
  }
  return std::nullopt;
}

}  // namespace nd::core
