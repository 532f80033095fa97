// SPDX-License-Identifier: Apache-2.0
// Aligned text columns, and the rules for colour.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nd::cli {

struct Cell {
  std::string text;
  const char* color = nullptr;  // An SGR parameter such as "32", or null.
  bool changed = false;         // Shown in reverse, without colour with a star.
};

struct Table {
  struct Header {
    std::string text;
    bool right = false;     // Numbers.
    bool restless = false;  // Changes always, such as an age; MarkChanges() ignores it.
  };
  std::vector<Header> headers;
  std::vector<std::vector<Cell>> rows;  // Each as long as `headers`.
  std::vector<std::string> keys = {};   // The object of each row; empty, or as long as `rows`.

  // Columns are separated by two spaces; control characters in cells are shown as '?', so that the name of a
  // process cannot move the cursor. No line has trailing spaces.
  std::string Format(bool show_headers, bool color) const;
  // Shortens cells of one column in the middle, never below its header, so that lines have `width` columns.
  void FitInto(std::size_t width, std::size_t column);
  // Marks the cells that differ from those of the row with the same key in `before`, and new rows. A cell
  // that was empty is not marked, because its value is known for the first time.
  void MarkChanges(const Table& before);
};

enum class ColorMode { kAuto, kAlways, kNever };
// NO_COLOR, CLICOLOR_FORCE, TERM=dumb and whether stdout is a terminal (https://no-color.org).
bool UseColor(ColorMode mode, bool stdout_is_tty);

// The colour of the name of a state: good, transient or bad; null for other texts.
const char* StateColor(std::string_view state);

// Columns that `text` takes on a terminal, one per code point.
std::size_t DisplayWidth(std::string_view text);
std::string Printable(std::string_view text);
// "kubelet~worker-7": removes text from the middle to fit `width` columns.
std::string ShortenMiddle(std::string_view text, std::size_t width);

}  // namespace nd::cli
