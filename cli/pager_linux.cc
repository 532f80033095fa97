// SPDX-License-Identifier: Apache-2.0
// The pager is run by the shell, because the variables may contain options.
#include "cli/pager.h"

#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>

namespace nd::cli {
namespace {

constexpr int kNoSuchCommand = 127;  // Of sh.

}  // namespace

TerminalSize SizeOfTerminal() {
  winsize size{};
  if (isatty(STDOUT_FILENO) == 0 || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0) return {};
  return {size.ws_row, size.ws_col};
}

const char* DefaultPager() {
  return "less -FRSX";
}

bool RunPager(const std::string& text) {
  FILE* pipe = popen(PagerCommand().c_str(), "we");
  if (pipe == nullptr) return false;
  // A pager that the user leaves early stops reading, which is not an error.
  std::fwrite(text.data(), 1, text.size(), pipe);
  const int status = pclose(pipe);
  return !(WIFEXITED(status) && WEXITSTATUS(status) == kNoSuchCommand);
}

}  // namespace nd::cli
