// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>

#include "base/os/wildcard.h"

namespace nd::os {

bool MatchesWildcard(const std::string& pattern, const std::string& text) {
  return ::fnmatch(pattern.c_str(), text.c_str(), FNM_CASEFOLD) == 0;
}

}  // namespace nd::os
