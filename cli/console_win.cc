// SPDX-License-Identifier: Apache-2.0
#include "cli/console.h"

#include <windows.h>

#include <fcntl.h>
#include <io.h>
#include <shellapi.h>

#include <cstdio>
#include <cstdlib>

namespace nd::cli {
namespace {

std::string Utf8(const wchar_t* text) {
  const int size = ::WideCharToMultiByte(CP_UTF8, 0, text, -1, nullptr, 0, nullptr, nullptr);
  std::string out(size > 0 ? static_cast<std::size_t>(size) : 1, '\0');
  ::WideCharToMultiByte(CP_UTF8, 0, text, -1, out.data(), size, nullptr, nullptr);
  out.pop_back();  // The null.
  return out;
}

void SetUnlessSet(const char* name, const char* value) {
  if (std::getenv(name) == nullptr) ::_putenv_s(name, value);
}

void GiveBack(unsigned output_mode, unsigned code_page) {
  std::fflush(nullptr);
  if (output_mode != 0) ::SetConsoleMode(::GetStdHandle(STD_OUTPUT_HANDLE), output_mode);
  if (code_page != 0) ::SetConsoleOutputCP(code_page);
}

}  // namespace

Console::Console(int argc, char** argv) {
  int count = 0;
  wchar_t** wide = ::CommandLineToArgvW(::GetCommandLineW(), &count);
  for (int i = 0; wide != nullptr && i < count; ++i) texts_.push_back(Utf8(wide[i]));
  ::LocalFree(wide);
  if (texts_.empty()) texts_.assign(argv, argv + argc);
  for (const std::string& text : texts_) arguments_.push_back(text.c_str());
  arguments_.push_back(nullptr);

  SetUnlessSet("GRPC_VERBOSITY", "NONE");    // ndctl reports errors itself.
  ::_setmode(::_fileno(stdout), _O_BINARY);  // A bundle, and lines as other systems have them.
  HANDLE output = ::GetStdHandle(STD_OUTPUT_HANDLE);
  DWORD mode = 0;
  if (::GetConsoleMode(output, &mode) == 0) return;
  code_page_ = ::GetConsoleOutputCP();
  ::SetConsoleOutputCP(CP_UTF8);
  if (::SetConsoleMode(output, mode | ENABLE_PROCESSED_OUTPUT | ENABLE_VIRTUAL_TERMINAL_PROCESSING) == 0)
    return;
  output_mode_ = mode;
  SetUnlessSet("TERM", "xterm-256color");
}

Console::~Console() {
  GiveBack(output_mode_, code_page_);
}

int Console::End(int status) {
  GiveBack(output_mode_, code_page_);
  ::TerminateProcess(::GetCurrentProcess(), static_cast<UINT>(status));
  return status;
}

}  // namespace nd::cli
