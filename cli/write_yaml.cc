// SPDX-License-Identifier: Apache-2.0
// YAML in block style. A string is written plain only when no YAML 1.1 or 1.2 reader can take it for anything
// else; otherwise in double quotes, whose escapes are those of JSON.
#include <array>
#include <cctype>

#include "cli/value.h"

namespace nd::cli {
namespace {

bool IsPlain(std::string_view text) {
  if (text.empty() || text.size() > 200) return false;
  const auto letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  // Text that no YAML reader takes for a number, a time or an indicator.
  if (!letter(text[0]) && text[0] != '/') return false;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!letter(c) && !digit && c != '_' && c != '-' && c != '.' && c != '/' && c != ' ') return false;
  }
  if (text.back() == ' ') return false;
  std::string lower;
  for (const char c : text) lower += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  static constexpr std::array<std::string_view, 9> kWords = {"null", "true", "false", "yes", "no",
                                                             "on",   "off",  "y",     "n"};
  for (const std::string_view word : kWords) {
    if (lower == word) return false;
  }
  return true;
}

std::string YamlString(std::string_view text) {
  return IsPlain(text) ? std::string(text) : QuoteJson(text);
}

}  // namespace

std::string Value::ScalarYaml() const {
  return is_string() ? YamlString(std::get<std::string>(data_)) : ScalarJson();
}

void Value::AppendYaml(std::string* out, int depth, bool in_list) const {
  const std::string pad(static_cast<std::size_t>(2 * depth), ' ');
  // After "- " the first line continues where it is.
  bool continues = in_list;
  const auto start = [&] {
    if (!continues) *out += pad;
    continues = false;
  };
  if (is_array()) {
    for (const Value& item : array()) {
      start();
      *out += "- ";
      const bool nested =
          (item.is_array() && !item.array().empty()) || (item.is_object() && !item.object().empty());
      if (nested) {
        item.AppendYaml(out, depth + 1, true);
      } else {
        item.AppendYaml(out, 0, true);
      }
    }
    if (array().empty()) *out += "[]\n";
    return;
  }
  if (is_object()) {
    for (const auto& [key, item] : object()) {
      start();
      *out += YamlString(key) + ":";
      const bool nested =
          (item.is_array() && !item.array().empty()) || (item.is_object() && !item.object().empty());
      if (nested) {
        *out += '\n';
        item.AppendYaml(out, depth + 1, false);
      } else {
        *out += ' ';
        item.AppendYaml(out, 0, true);
      }
    }
    if (object().empty()) *out += "{}\n";
    return;
  }
  *out += ScalarYaml() + '\n';
}

std::string Value::ToYaml() const {
  std::string out;
  AppendYaml(&out, 0, false);
  return out;
}

}  // namespace nd::cli
