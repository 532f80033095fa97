// SPDX-License-Identifier: Apache-2.0
#include "cli/pager.h"

#include <algorithm>
#include <cstdlib>

namespace nd::cli {

std::string PagerCommand() {
  for (const char* name : {"NDCTL_PAGER", "PAGER"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return DefaultPager();
}

bool WantsPager(const std::string& text) {
  const TerminalSize size = SizeOfTerminal();
  if (size.rows == 0) return false;
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines < size.rows) return false;
  const std::string pager = PagerCommand();
  return !pager.empty() && pager != "cat";
}

}  // namespace nd::cli
