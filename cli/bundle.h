// SPDX-License-Identifier: Apache-2.0
// What goes into `ndctl debug bundle`, one file for each question that support asks first.
#pragma once

#include <vector>

#include "cli/context.h"
#include "cli/tar.h"

namespace nd::cli {

// Collects everything that this user may see; what could not be had is told in the manifest, which comes
// first. Values of settings whose name speaks of a secret are left out. Shows progress on a terminal.
std::vector<ArchiveFile> CollectBundle(Context& context, const std::string& folder);

// "<redacted>" for the value of a setting that is a secret by its name.
std::string Redacted(const std::string& name, const std::string& value);

}  // namespace nd::cli
