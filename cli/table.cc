// SPDX-License-Identifier: Apache-2.0
// Writes tables. No packaged library is small enough to be worth a dependency.
#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <unordered_map>

namespace nd::cli {

std::string Printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // C1 control characters are C2 80..C2 9F in UTF-8.
    const bool c1 = c == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (c1) {
      out += '?';
      ++i;
    } else if (c < 0x20 || c == 0x7F) {
      out += '?';
    } else {
      out += text[i];
    }
  }
  return out;
}

std::size_t DisplayWidth(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(
      text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string ShortenMiddle(std::string_view text, std::size_t width) {
  const std::size_t has = DisplayWidth(text);
  if (has <= width || width == 0) return std::string(text);
  const std::size_t tail = (width - 1) / 2, head = width - 1 - tail;
  std::string out;
  std::size_t at = 0;  // The start of the code point.
  for (const char c : text) {
    if ((static_cast<unsigned char>(c) & 0xC0) != 0x80) {
      if (at == head) out += '~';
      ++at;
    }
    if (at <= head || at > has - tail) out += c;
  }
  return out;
}

void Table::FitInto(std::size_t width, std::size_t column) {
  std::size_t others = 0;
  for (std::size_t i = 0; i < headers.size(); ++i) {
    if (i == column) continue;
    std::size_t widest = DisplayWidth(headers[i].text);
    for (const auto& row : rows) widest = std::max(widest, DisplayWidth(row[i].text));
    others += widest + 2;
  }
  const std::size_t room = std::max(DisplayWidth(headers[column].text), width - std::min(width, others));
  for (auto& row : rows) row[column].text = ShortenMiddle(Printable(row[column].text), room);
}

std::string Table::Format(bool show_headers, bool color) const {
  std::vector<std::size_t> widths(headers.size(), 0);
  // An empty cell would shift `awk`'s columns.
  const auto shown = [&](const Cell& cell) {
    const std::string text = Printable(cell.text);
    return (text.empty() ? std::string("-") : text) + (cell.changed && !color ? "*" : "");
  };
  if (show_headers) {
    for (std::size_t i = 0; i < headers.size(); ++i) widths[i] = DisplayWidth(headers[i].text);
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < headers.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(shown(row[i])));
    }
  }
  std::string out;
  const auto line = [&](const auto& text_of, const auto& sgr_of) {
    std::string pending;  // Spaces are written only before further text.
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const std::string text = text_of(i);
      const std::string pad(widths[i] - std::min(widths[i], DisplayWidth(text)), ' ');
      if (headers[i].right) pending += pad;
      const std::string sgr = color ? sgr_of(i) : std::string();
      out += pending;
      if (!sgr.empty()) out += "\033[" + sgr + "m";
      out += text;
      if (!sgr.empty()) out += "\033[0m";
      pending = headers[i].right ? "  " : pad + "  ";
    }
    out += '\n';
  };
  if (show_headers) {
    line([&](std::size_t i) { return headers[i].text; }, [](std::size_t) { return std::string("1"); });
  }
  for (const auto& row : rows) {
    line([&](std::size_t i) { return shown(row[i]); },
         [&](std::size_t i) {
           const std::string sgr = row[i].color == nullptr ? "" : row[i].color;
           return row[i].changed ? (sgr.empty() ? "7" : sgr + ";7") : sgr;
         });
  }
  return out;
}

void Table::MarkChanges(const Table& before) {
  std::unordered_map<std::string_view, const std::vector<Cell>*> old;
  for (std::size_t i = 0; i < before.keys.size(); ++i) old[before.keys[i]] = &before.rows[i];
  for (std::size_t i = 0; i < keys.size(); ++i) {
    const auto found = old.find(keys[i]);
    const std::vector<Cell>* then = found == old.end() ? nullptr : found->second;
    for (std::size_t j = 0; j < rows[i].size(); ++j) {
      if (headers[j].restless) continue;
      rows[i][j].changed = then == nullptr || j >= then->size() ||
                           (!(*then)[j].text.empty() && (*then)[j].text != rows[i][j].text);
    }
  }
}

bool UseColor(ColorMode mode, bool stdout_is_tty) {
  if (mode != ColorMode::kAuto) return mode == ColorMode::kAlways;
  const auto set = [](const char* name) {
    const char* value = std::getenv(name);
    return value != nullptr && *value != '\0';
  };
  if (set("NO_COLOR")) return false;
  const char* force = std::getenv("CLICOLOR_FORCE");
  if (force != nullptr && *force != '\0' && std::string_view(force) != "0") return true;
  const char* term = std::getenv("TERM");
  if (term == nullptr || std::string_view(term) == "dumb") return false;
  return stdout_is_tty;
}

const char* StateColor(std::string_view state) {
  static constexpr std::array<std::string_view, 9> kGood = {
      "enabled", "listening", "Connected", "open", "connected", "running", "PASS", "closed", "allowed"};
  static constexpr std::array<std::string_view, 9> kBad = {
      "disabled", "Dead", "PeerClosed", "unreachable", "FAIL", "failed", "broken", "died", "refused"};
  static constexpr std::array<std::string_view, 14> kPassing = {
      "paused",    "closing",   "Waiting",       "Connecting", "Replied", "Completing", "Incoming",
      "Accepting", "lingering", "Disconnecting", "draining",   "WARN",    "connecting", "killed"};
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), state) != list.end(); };
  if (in(kGood)) return "32";
  if (in(kBad)) return "31";
  if (in(kPassing)) return "33";
  return nullptr;
}

}  // namespace nd::cli
