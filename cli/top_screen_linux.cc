// SPDX-License-Identifier: Apache-2.0
// The only file that knows ncurses.
#include "cli/top_screen.h"

#include <ncurses.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <clocale>
#include <cstdlib>

namespace nd::cli {

TopScreen::TopScreen() {
  // Graphs need UTF-8, also when the environment selects another character set.
  if (std::setlocale(LC_ALL, "") == nullptr || MB_CUR_MAX == 1) std::setlocale(LC_ALL, "C.UTF-8");
  good_ = newterm(nullptr, stdout, stdin) != nullptr;
  if (!good_) return;
  raw();  // Ctrl-C arrives as a key, so that the terminal is restored in one place.
  noecho();
  keypad(stdscr, TRUE);
  curs_set(0);
  set_escdelay(25);
  if (has_colors() && std::getenv("NO_COLOR") == nullptr) {
    start_color();
    use_default_colors();
    init_pair(1, COLOR_RED, -1);
    init_pair(2, COLOR_CYAN, -1);
    color_ = true;
  }
}

TopScreen::~TopScreen() {
  if (good_) endwin();
}

std::size_t TopScreen::width() const {
  return static_cast<std::size_t>(std::max(COLS, 1));
}

std::size_t TopScreen::height() const {
  return static_cast<std::size_t>(std::max(LINES, 2));
}

void TopScreen::Draw(const std::vector<TopLine>& lines, const std::string& foot) {
  erase();
  int y = 0;
  for (const TopLine& line : lines) {
    attr_t style = A_NORMAL;
    if (line.kind == TopLine::Kind::kTotal || line.kind == TopLine::Kind::kGroup) style = A_BOLD;
    if (line.kind == TopLine::Kind::kHeader) style = A_UNDERLINE;
    if (line.selected) style |= A_REVERSE;
    const int pair = line.trouble ? 1 : line.kind == TopLine::Kind::kTotal ? 2 : 0;
    attrset(static_cast<int>(style | (color_ ? COLOR_PAIR(pair) : 0)));
    mvaddstr(y++, 0, line.text.c_str());
  }
  attrset(A_DIM);
  mvaddnstr(LINES - 1, 0, foot.c_str(), COLS - 1);
  refresh();
}

TopPressed TopScreen::Wait(int milliseconds) {
  timeout(milliseconds);
  const int key = getch();
  switch (key) {
    case ERR: {
      // Either no key was pressed, or the terminal is gone.
      pollfd input{STDIN_FILENO, POLLIN, 0};
      const bool gone = ::poll(&input, 1, 0) > 0 && (input.revents & (POLLHUP | POLLERR)) != 0;
      return {gone ? TopKey::kEnded : TopKey::kNone, 0};
    }
    case 3:
      return {TopKey::kEnded, 0};
    case KEY_UP:
      return {TopKey::kUp, 0};
    case KEY_DOWN:
      return {TopKey::kDown, 0};
    case KEY_PPAGE:
      return {TopKey::kPageUp, 0};
    case KEY_NPAGE:
      return {TopKey::kPageDown, 0};
    case KEY_HOME:
      return {TopKey::kHome, 0};
    case KEY_END:
      return {TopKey::kEnd, 0};
    case '\n':
    case '\r':
    case KEY_ENTER:
      return {TopKey::kEnter, 0};
    case 27:
      return {TopKey::kEscape, 0};
    case KEY_BACKSPACE:
    case 127:
    case 8:
      return {TopKey::kBackspace, 0};
    default:
      return key >= 32 && key < 127 ? TopPressed{TopKey::kCharacter, static_cast<char>(key)} : TopPressed{};
  }
}

}  // namespace nd::cli
