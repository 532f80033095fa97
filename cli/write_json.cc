// SPDX-License-Identifier: Apache-2.0
// JSON by our own hand: no packaged writer is needed for output alone, and hostile text must stay valid.
#include <algorithm>
#include <cstdio>

#include "cli/value.h"

namespace nd::cli {
namespace {

// Length of the valid UTF-8 sequence at the front of `text`; 0 when there is none.
std::size_t Utf8Length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  if (lead >= 0xC2 && lead <= 0xDF) length = 2;
  if (lead >= 0xE0 && lead <= 0xEF) length = 3;
  if (lead >= 0xF0 && lead <= 0xF4) length = 4;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Overlong forms, surrogates and values above U+10FFFF.
  if (lead == 0xE0 && at(1) < 0xA0) return 0;
  if (lead == 0xED && at(1) > 0x9F) return 0;
  if (lead == 0xF0 && at(1) < 0x90) return 0;
  if (lead == 0xF4 && at(1) > 0x8F) return 0;
  return length;
}

}  // namespace

namespace {

void AppendQuoted(std::string_view text, std::string* out) {
  *out += '"';
  while (!text.empty()) {
    // Fast path: nearly all text has no special characters, and a list has thousands of rows.
    const auto special = std::find_if(text.begin(), text.end(), [](char c) {
      const auto u = static_cast<unsigned char>(c);
      return u < 0x20 || u >= 0x7F || c == '"' || c == '\\';
    });
    const auto plain = static_cast<std::size_t>(special - text.begin());
    out->append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    const std::size_t length = Utf8Length(text);
    if (length == 0) {
      *out += "\\ufffd";
      text.remove_prefix(1);
      continue;
    }
    const char c = text[0];
    if (length > 1) {
      *out += text.substr(0, length);
    } else if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (c == '\n') {
      *out += "\\n";
    } else if (c == '\t') {
      *out += "\\t";
    } else if (c == '\r') {
      *out += "\\r";
    } else {
      char buffer[8];
      std::snprintf(buffer, sizeof(buffer), "\\u%04x", static_cast<unsigned>(static_cast<unsigned char>(c)));
      *out += buffer;
    }
    text.remove_prefix(length);
  }
  *out += '"';
}

}  // namespace

std::string QuoteJson(std::string_view text) {
  std::string out;
  AppendQuoted(text, &out);
  return out;
}

void Value::AppendJson(std::string* out, int indent, int depth) const {
  if (const auto* text = std::get_if<std::string>(&data_)) return AppendQuoted(*text, out);
  if (!is_array() && !is_object()) {
    *out += ScalarJson();
    return;
  }
  const char open = is_array() ? '[' : '{';
  const char close = is_array() ? ']' : '}';
  const auto new_line = [&](int level) {
    if (indent == 0) return;
    *out += '\n';
    out->append(static_cast<std::size_t>(indent * level), ' ');
  };
  *out += open;
  bool first = true;
  const auto separate = [&] {
    if (!first) *out += ',';
    first = false;
    new_line(depth + 1);
  };
  if (is_array()) {
    for (const Value& item : array()) {
      separate();
      item.AppendJson(out, indent, depth + 1);
    }
  } else {
    for (const auto& [key, item] : object()) {
      separate();
      AppendQuoted(key, out);
      *out += indent == 0 ? ":" : ": ";
      item.AppendJson(out, indent, depth + 1);
    }
  }
  if (!first) new_line(depth);
  *out += close;
}

std::string Value::ToJson(int indent) const {
  std::string out;
  AppendJson(&out, indent, 0);
  return out;
}

}  // namespace nd::cli
