// SPDX-License-Identifier: Apache-2.0
// The pager is run by the shell, because the variables may contain options.
#include "cli/pager.h"

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace nd::cli {
namespace {

constexpr int kNoSuchCommand = 127;  // Of sh.

std::string Pager() {
  for (const char* name : {"NDCTL_PAGER", "PAGER"}) {
    if (const char* value = std::getenv(name)) return value;
  }
  return "less -FRSX";
}

}  // namespace

TerminalSize SizeOfTerminal() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

bool WantsPager(const std::string& text) {
  const TerminalSize size = SizeOfTerminal();
  if (size.rows == 0) return false;
  const auto lines = static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
  if (lines < size.rows) return false;
  const std::string pager = Pager();
  return !pager.empty() && pager != "cat";
}

bool RunPager(const std::string& text) {
  FILE* pipe = popen(Pager().c_str(), "we");
  if (pipe == nullptr) return false;
  // A pager that the user leaves early stops reading, which is not an error.
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = pclose(pipe);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchCommand);
}

}  // namespace nd::cli
