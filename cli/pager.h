// SPDX-License-Identifier: Apache-2.0
// Shows long text on a terminal through a pager: $NDCTL_PAGER, $PAGER, or that of the system.
#pragma once

#include <string>

namespace nd::cli {

// True when stdout is a terminal that `text` does not fit and the user wants a pager ("" and "cat" mean no).
bool WantsPager(const std::string& text);
// The command of the pager; "": none.
std::string PagerCommand();
const char* DefaultPager();
// Returns false when there is no pager; nothing was shown then.
bool RunPager(const std::string& text);

// The lines and columns of the terminal on stdout; 0 when they are unknown.
struct TerminalSize {
  std::size_t rows = 0, columns = 0;
};
TerminalSize SizeOfTerminal();

}  // namespace nd::cli
