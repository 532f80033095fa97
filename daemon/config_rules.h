// SPDX-License-Identifier: Apache-2.0
// [[rule]] of the configuration, and networks as text.
#pragma once

#include <vector>

#include "daemon/config_reader.h"
#include "daemon/core/policy.h"

namespace nd::config {

core::Rule ReadRule(TableReader reader, std::size_t number);

// Parses "192.0.2.0/24:4420", "[2001:db8::]/64:7000-7010", "10.0.0.1", "*:4420", "*". "*" as a network means
// both families, so two prefixes. INVALID_PARAMETER with the reason.
Result<std::vector<core::Prefix>> ParsePrefixes(const std::string& text);

}  // namespace nd::config
