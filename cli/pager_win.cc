// SPDX-License-Identifier: Apache-2.0
// Windows has only more.com, which shows no colours and no UTF-8. So there is a pager when the user names
// one.
#include "cli/pager.h"

#include <windows.h>

#include <cstdio>

namespace nd::cli {
namespace {

constexpr int kNoSuchCommand = 1;  // Of cmd.exe, and of many pagers that failed.

}  // namespace

TerminalSize SizeOfTerminal() {
  CONSOLE_SCREEN_BUFFER_INFO info{};
  if (::GetConsoleScreenBufferInfo(::GetStdHandle(STD_OUTPUT_HANDLE), &info) == 0) return {};
  return {static_cast<std::size_t>(info.srWindow.Bottom - info.srWindow.Top + 1),
          static_cast<std::size_t>(info.srWindow.Right - info.srWindow.Left + 1)};
}

const char* DefaultPager() {
  return "";
}

bool RunPager(const std::string& text) {
  FILE* pipe = ::_popen(PagerCommand().c_str(), "wb");
  if (pipe == nullptr) return false;
  // A pager that the user leaves early stops reading, which is not an error.
  std::fwrite(text.data(), 1, text.size(), pipe);
  return ::_pclose(pipe) != kNoSuchCommand;
}

}  // namespace nd::cli
