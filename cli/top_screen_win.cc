// SPDX-License-Identifier: Apache-2.0
// A console of Windows 10 or later: sequences of a terminal out, records of keys in.
#include "cli/top_screen.h"

#include <windows.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "cli/format.h"
#include "cli/pager.h"
#include "cli/table.h"

namespace nd::cli {
namespace {

HANDLE Input() {
  return ::GetStdHandle(STD_INPUT_HANDLE);
}

void Emit(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// The whole characters at the front that fit.
std::string Cut(std::string text, std::size_t width) {
  const auto inside = [&] { return (static_cast<unsigned char>(text.back()) & 0xc0) == 0x80; };
  while (DisplayWidth(text) > width) {
    while (text.size() > 1 && inside()) text.pop_back();
    text.pop_back();
  }
  return text;
}

TopPressed KeyOf(const KEY_EVENT_RECORD& event) {
  switch (event.wVirtualKeyCode) {
    case VK_UP:
      return {TopKey::kUp, 0};
    case VK_DOWN:
      return {TopKey::kDown, 0};
    case VK_PRIOR:
      return {TopKey::kPageUp, 0};
    case VK_NEXT:
      return {TopKey::kPageDown, 0};
    case VK_HOME:
      return {TopKey::kHome, 0};
    case VK_END:
      return {TopKey::kEnd, 0};
    case VK_RETURN:
      return {TopKey::kEnter, 0};
    case VK_ESCAPE:
      return {TopKey::kEscape, 0};
    case VK_BACK:
      return {TopKey::kBackspace, 0};
    default:
      break;
  }
  const wchar_t c = event.uChar.UnicodeChar;
  if (c == 3) return {TopKey::kEnded, 0};  // Ctrl-C, which arrives as a key.
  return c >= 32 && c < 127 ? TopPressed{TopKey::kCharacter, static_cast<char>(c)} : TopPressed{};
}

}  // namespace

TopScreen::TopScreen() {
  DWORD output = 0, input = 0;
  good_ = ::GetConsoleMode(::GetStdHandle(STD_OUTPUT_HANDLE), &output) != 0 &&
          (output & ENABLE_VIRTUAL_TERMINAL_PROCESSING) != 0 && ::GetConsoleMode(Input(), &input) != 0;
  if (!good_) return;
  input_mode_ = input;
  ::SetConsoleMode(Input(), ENABLE_WINDOW_INPUT);
  color_ = std::getenv("NO_COLOR") == nullptr;
  Emit("\033[?1049h\033[?25l");  // The second screen, without a cursor.
}

TopScreen::~TopScreen() {
  if (!good_) return;
  Emit("\033[0m\033[?25h\033[?1049l");
  ::SetConsoleMode(Input(), input_mode_);
}

std::size_t TopScreen::width() const {
  return std::max<std::size_t>(SizeOfTerminal().columns, 1);
}

std::size_t TopScreen::height() const {
  return std::max<std::size_t>(SizeOfTerminal().rows, 2);
}

void TopScreen::Draw(const std::vector<TopLine>& lines, const std::string& foot) {
  const std::size_t rows = height();
  std::string text = "\033[?7l\033[H";  // Long lines are cut, not wrapped.
  std::size_t row = 0;
  for (const TopLine& line : lines) {
    if (++row >= rows) break;
    std::string style = "0";
    if (line.kind == TopLine::Kind::kTotal || line.kind == TopLine::Kind::kGroup) style += ";1";
    if (line.kind == TopLine::Kind::kHeader) style += ";4";
    if (line.selected) style += ";7";
    if (color_ && line.trouble) {
      style += ";31";
    } else if (color_ && line.kind == TopLine::Kind::kTotal) {
      style += ";36";
    }
    text += "\033[" + style + "m" + line.text + "\033[0m\033[K\r\n";
  }
  text += "\033[J\033[" + std::to_string(rows) + ";1H\033[0;2m" + Cut(Printable(foot), width() - 1) +
          "\033[0m\033[K\033[?7h";
  Emit(text);
}

TopPressed TopScreen::Wait(int milliseconds) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
  while (true) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    const DWORD waited = ::WaitForSingleObject(Input(), static_cast<DWORD>(std::max<long long>(left, 0)));
    if (waited == WAIT_TIMEOUT) return {};
    INPUT_RECORD record{};
    DWORD count = 0;
    if (waited != WAIT_OBJECT_0 || ::ReadConsoleInputW(Input(), &record, 1, &count) == 0)
      return {TopKey::kEnded, 0};
    if (count == 1 && record.EventType == WINDOW_BUFFER_SIZE_EVENT) return {};
    if (count != 1 || record.EventType != KEY_EVENT || record.Event.KeyEvent.bKeyDown == 0) continue;
    if (const TopPressed pressed = KeyOf(record.Event.KeyEvent); pressed.key != TopKey::kNone) return pressed;
  }
}

}  // namespace nd::cli
