// SPDX-License-Identifier: Apache-2.0
// The two tables of the configuration that are lists: [[rule]] and [[adapter]].
#pragma once

#include <vector>

#include "daemon/config_reader.h"
#include "daemon/core/policy.h"
#include "provider/soft/cm/options.h"

namespace nd::config {

core::Rule ReadRule(TableReader reader, std::size_t number);
provider::soft::AdapterOptions ReadAdapter(TableReader reader);

// "192.0.2.0/24:4420", "[2001:db8::]/64:7000-7010", "10.0.0.1", "*:4420", "*". "*" as a network is both
// families, so two prefixes. INVALID_PARAMETER with the reason.
Result<std::vector<core::Prefix>> ParsePrefixes(const std::string& text);

}  // namespace nd::config
