// SPDX-License-Identifier: Apache-2.0
// The contents of `ndctl debug bundle`, one file for each usual question of support.
#pragma once

#include <vector>

#include "cli/context.h"
#include "cli/tar.h"

namespace nd::cli {

// Collects everything that this user may see. The manifest, which comes first, lists missing parts with the
// reason. Values of settings with the name of a secret are left out. Shows progress on a terminal.
std::vector<ArchiveFile> CollectBundle(Context& context, const std::string& folder);

// Returns "<redacted>" for the value of a setting whose name is that of a secret.
std::string Redacted(const std::string& name, const std::string& value);

}  // namespace nd::cli
