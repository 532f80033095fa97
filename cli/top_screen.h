// SPDX-License-Identifier: Apache-2.0
// The terminal as `ndctl top` uses it: ncurses, whose macros stay in one file, or a console of Windows. One
// thread; one object at a time.
#pragma once

#include <string>
#include <vector>

#include "cli/top_model.h"

namespace nd::cli {

enum class TopKey {
  kNone,  // No key: the time is over, or the window has another size.
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEnter,
  kEscape,
  kBackspace,
  kEnded,  // The terminal is gone, or Ctrl-C.
};

struct TopPressed {
  TopKey key = TopKey::kNone;
  char character = 0;  // kCharacter: printable ASCII.
};

class TopScreen {
 public:
  TopScreen();
  ~TopScreen();  // Gives the terminal back.
  TopScreen(const TopScreen&) = delete;
  TopScreen& operator=(const TopScreen&) = delete;

  // False when this terminal cannot show a screen; nothing else may be called then.
  bool good() const { return good_; }
  std::size_t width() const;
  std::size_t height() const;
  void Draw(const std::vector<TopLine>& lines, const std::string& foot);
  TopPressed Wait(int milliseconds);

 private:
  bool good_ = false, color_ = false;
  unsigned long input_mode_ = 0;  // Of the console before; Windows alone.
};

}  // namespace nd::cli
