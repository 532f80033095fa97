// SPDX-License-Identifier: Apache-2.0
// Long text on a terminal goes through a pager: $NDCTL_PAGER, $PAGER, `less -FRSX`.
#pragma once

#include <string>

namespace nd::cli {

// Whether stdout is a terminal that `text` does not fit, and the user wants a pager ("" and "cat" mean no).
bool WantsPager(const std::string& text);
// False when there is no pager to run; nothing was shown then.
bool RunPager(const std::string& text);

// Lines and columns of the terminal on stdout; 0 when it is none or does not say.
struct TerminalSize {
  std::size_t rows = 0, columns = 0;
};
TerminalSize SizeOfTerminal();

}  // namespace nd::cli
