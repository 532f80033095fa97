// SPDX-License-Identifier: Apache-2.0
// Facts about this host, its users and groups. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace nd::os {

// The name of the host, at most 64 bytes; empty when it is unknown.
std::string HostName();
// One line for reports: the system, its release and the processor.
std::string SystemName();

// The number of the user or the group with this name. Absent: there is none.
std::optional<std::uint32_t> FindUser(const std::string& name);
std::optional<std::uint32_t> FindGroup(const std::string& name);

}  // namespace nd::os
