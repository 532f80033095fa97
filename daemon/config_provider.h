// SPDX-License-Identifier: Apache-2.0
// Gives each provider the tables of the configuration that it reads (provider/daemon_provider.h).
#pragma once

#include <string_view>

#include "daemon/config_reader.h"
#include "provider/daemon_provider.h"

namespace nd::config {

// Lets every provider read its keys of a table that others read too. The caller calls Done().
void ReadShared(TableReader& reader, std::string_view table, const provider::DaemonProviders& providers);
// Reads a table of one provider.
void ReadTable(TableReader& reader, std::string_view table, provider::DaemonProvider& provider);
// Reads a list of one provider.
void ReadList(TableReader& root, std::string_view list, provider::DaemonProvider& provider);

}  // namespace nd::config
