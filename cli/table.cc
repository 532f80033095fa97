// SPDX-License-Identifier: Apache-2.0
// The table writer; nothing packaged is small enough to be worth a dependency.
#include "cli/table.h"

#include <algorithm>
#include <array>
#include <cstdlib>

namespace nd::cli {

std::string Printable(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<unsigned char>(text[i]);
    // C1 controls travel as C2 80..C2 9F in UTF-8.
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

std::string Table::Format(bool show_headers, bool color) const {
  std::vector<std::size_t> widths(headers.size(), 0);
  if (show_headers) {
    for (std::size_t i = 0; i < headers.size(); ++i) widths[i] = DisplayWidth(headers[i].text);
  }
  for (const auto& row : rows) {
    for (std::size_t i = 0; i < headers.size(); ++i) {
      widths[i] = std::max(widths[i], std::max<std::size_t>(1, DisplayWidth(Printable(row[i].text))));
    }
  }
  std::string out;
  const auto line = [&](const auto& text_of, const auto& color_of) {
    std::string pending;  // Spaces are written only when something follows them.
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const std::string text = text_of(i);
      const std::string pad(widths[i] - std::min(widths[i], DisplayWidth(text)), ' ');
      if (headers[i].right) pending += pad;
      const char* sgr = color ? color_of(i) : nullptr;
      out += pending;
      if (sgr != nullptr) out += std::string("\033[") + sgr + "m";
      out += text;
      if (sgr != nullptr) out += "\033[0m";
      pending = headers[i].right ? "  " : pad + "  ";
    }
    out += '\n';
  };
  if (show_headers) {
    line([&](std::size_t i) { return headers[i].text; }, [](std::size_t) { return "1"; });
  }
  for (const auto& row : rows) {
    line(
        [&](std::size_t i) {
          const std::string text = Printable(row[i].text);
          return text.empty() ? std::string("-") : text;  // An empty cell would shift `awk`'s columns.
        },
        [&](std::size_t i) { return row[i].color; });
  }
  return out;
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
  static constexpr std::array<std::string_view, 4> kGood = {"enabled", "listening", "Connected", "open"};
  static constexpr std::array<std::string_view, 4> kBad = {"disabled", "Dead", "PeerClosed", "unreachable"};
  static constexpr std::array<std::string_view, 10> kPassing = {
      "paused",     "closing",  "Waiting",   "Connecting",    "Replied",
      "Completing", "Incoming", "Accepting", "Disconnecting", "lingering"};
  const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), state) != list.end(); };
  if (in(kGood)) return "32";
  if (in(kBad)) return "31";
  if (in(kPassing)) return "33";
  return nullptr;
}

}  // namespace nd::cli
