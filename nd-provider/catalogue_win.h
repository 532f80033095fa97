// SPDX-License-Identifier: Apache-2.0
// The entry of the provider in the Winsock catalogue, where programs find Network Direct providers. Writing
// needs an administrator.
#pragma once

#include <string>

#include "nd/status.h"

namespace nd::spi {

// Adds the entry for the DLL at `path`, in place of an earlier one. ACCESS_DENIED: the user may not.
// NOT_SUPPORTED: the system says that it has the entry, and does not list it. Nothing is left after a
// failure.
Status InstallEntry(const std::wstring& path);
// SUCCESS also when there is no entry.
Status RemoveEntry();
bool EntryExists();

}  // namespace nd::spi
