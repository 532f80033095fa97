// SPDX-License-Identifier: Apache-2.0
// Conversions of values, and the messages for values of another form.
#include "daemon/config_reader.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include "daemon/ops/logging.h"

namespace nd::config {
namespace {

std::size_t EditDistance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t above = row[j];
      row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (a[i - 1] != b[j - 1])});
      diagonal = above;
    }
  }
  return row.back();
}

std::string_view TypeName(const toml::node& node) {
  switch (node.type()) {
    case toml::node_type::table:
      return "a table";
    case toml::node_type::array:
      return "a list";
    case toml::node_type::string:
      return "a text";
    case toml::node_type::integer:
      return "a whole number";
    case toml::node_type::floating_point:
      return "a number with a fraction";
    case toml::node_type::boolean:
      return "true or false";
    default:
      return "a date or time";
  }
}

std::string Text(Duration duration) {
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(duration).count();
  if (ms % 3600000 == 0 && ms != 0) return std::to_string(ms / 3600000) + "h";
  return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

std::string Octal(std::uint32_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode));
  return text;
}

bool GoodName(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
           c == '_' || c == '-';
  });
}

}  // namespace

void Findings::Add(const toml::source_region& where, std::string_view what) {
  if (++count_ > kShown) return;
  if (!text_.empty()) text_ += '\n';
  text_ += file_ + ":" + std::to_string(where.begin.line) + ":" + std::to_string(where.begin.column) + ": ";
  text_ += ops::Printable(what);
}

TableReader::TableReader(const toml::table& table, std::string name, Findings& findings)
    : table_(table), name_(std::move(name)), findings_(findings) {
  for (const char c : name_) {
    if (c != '[' && c != ']') prefix_ += c;
  }
}

void TableReader::Record(std::string_view key, std::string value) {
  const bool given = table_.contains(key);
  if (only_given_ && !given) return;
  findings_.settings.push_back({prefix_ + "." + std::string(key), std::move(value),
                                given ? Setting::Origin::kFile : Setting::Origin::kDefault});
}

std::string TableReader::In(std::string_view key) const {
  return "\"" + std::string(key) + "\" in " + name_;
}

const toml::node* TableReader::Any(std::string_view key) {
  known_.emplace_back(key);
  return table_.get(key);
}

bool TableReader::Bool(std::string_view key, bool* out) {
  const toml::node* node = Any(key);
  const std::optional<bool> value = node == nullptr ? std::nullopt : node->value_exact<bool>();
  if (value) *out = *value;
  Record(key, *out ? "true" : "false");
  if (node == nullptr) return false;
  if (value) return true;
  Wrong(*node, In(key) + " is " + std::string(TypeName(*node)) + "; it must be true or false");
  return false;
}

bool TableReader::Integer(std::string_view key, std::int64_t min, std::int64_t max, std::int64_t* out) {
  const toml::node* node = Any(key);
  if (node == nullptr) return false;
  const auto value = node->value_exact<std::int64_t>();
  if (value && *value >= min && *value <= max) {
    *out = *value;
    return true;
  }
  const std::string is = value ? std::to_string(*value) : std::string(TypeName(*node));
  Wrong(*node, In(key) + " is " + is + "; it must be a whole number from " + std::to_string(min) + " to " +
                   std::to_string(max));
  return false;
}

bool TableReader::String(std::string_view key, std::string* out) {
  const toml::node* node = Any(key);
  std::optional<std::string> value;
  if (node != nullptr) value = node->value_exact<std::string>();
  if (value) *out = std::move(*value);
  Record(key, *out);
  if (node == nullptr) return false;
  if (value) return true;
  Wrong(*node, In(key) + " is " + std::string(TypeName(*node)) + "; it must be a text in quotes");
  return false;
}

bool TableReader::Time(std::string_view key, Duration min, Duration max, Duration* out) {
  const toml::node* node = Any(key);
  if (node == nullptr) {
    Record(key, Text(*out));
    return false;
  }
  const std::string range =
      "; it must be a time from " + Text(min) + " to " + Text(max) + " such as \"250ms\", \"5s\" or \"2min\"";
  const auto text = node->value_exact<std::string>();
  if (!text) {
    Wrong(*node, In(key) + " is " + std::string(TypeName(*node)) + range);
    return false;
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const std::string_view unit(end, static_cast<std::size_t>(text->data() + text->size() - end));
  const std::int64_t scale = unit == "ms"    ? 1
                             : unit == "s"   ? 1000
                             : unit == "min" ? 60000
                             : unit == "h"   ? 3600000
                                             : 0;
  constexpr std::int64_t kMost = 366LL * 24 * 3600 * 1000;
  const bool good = error == std::errc() && scale != 0 && number >= 0 && number <= kMost / scale;
  const Duration value = good ? Duration(std::chrono::milliseconds(number * scale)) : Duration::zero();
  if (!good || value < min || value > max) {
    Wrong(*node, In(key) + " is \"" + *text + "\"" + range);
    return false;
  }
  *out = value;
  Record(key, Text(value));
  return true;
}

bool TableReader::Mode(std::string_view key, std::uint32_t* out) {
  const toml::node* node = Any(key);
  if (node == nullptr) {
    Record(key, Octal(*out));
    return false;
  }
  unsigned mode = 0;
  const auto text = node->value_exact<std::string>();
  if (text && text->size() == 4 && (*text)[0] == '0') {
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), mode, 8);
    if (error == std::errc() && end == text->data() + text->size() && (mode & 0111) == 0 &&
        (mode & 0600) == 0600) {
      *out = static_cast<std::uint32_t>(mode);
      Record(key, Octal(*out));
      return true;
    }
  }
  Wrong(*node, In(key) + " must be the permissions of a socket in octal, such as \"0600\" or \"0660\"");
  return false;
}

bool TableReader::Strings(std::string_view key,
                          const std::function<void(const std::string&, const toml::node&)>& each) {
  const toml::node* node = Any(key);
  if (node == nullptr) {
    Record(key, "");
    return false;
  }
  const toml::array* list = node->as_array();
  if (list == nullptr) {
    Wrong(*node, In(key) + " is " + std::string(TypeName(*node)) + "; it must be a list of texts");
    return false;
  }
  std::string all;
  for (const toml::node& item : *list) {
    if (const auto text = item.value_exact<std::string>()) {
      all += (all.empty() ? "" : ", ") + *text;
      each(*text, item);
    } else {
      Wrong(item,
            In(key) + " contains " + std::string(TypeName(item)) + "; each item must be a text in quotes");
    }
  }
  Record(key, std::move(all));
  return true;
}

const toml::table* TableReader::Table(std::string_view key) {
  const toml::node* node = Any(key);
  if (node == nullptr) return nullptr;
  if (!node->is_table()) {
    Wrong(*node, In(key) + " is " + std::string(TypeName(*node)) + "; it must be a table");
  }
  return node->as_table();
}

std::vector<const toml::table*> TableReader::Tables(std::string_view key) {
  const toml::node* node = Any(key);
  std::vector<const toml::table*> tables;
  if (node == nullptr) return tables;
  const toml::array* list = node->as_array();
  if (list == nullptr ||
      !std::all_of(list->begin(), list->end(), [](const auto& item) { return item.is_table(); })) {
    Wrong(*node, In(key) + " must be written as [[" + std::string(key) + "]], once for each");
    return tables;
  }
  for (const toml::node& item : *list) tables.push_back(item.as_table());
  return tables;
}

void TableReader::EntryName(const std::string& list, bool only_given, std::string* out) {
  if (const toml::node* node = Any("name")) {
    const auto name = node->value_exact<std::string>();
    if (name && GoodName(*name)) {
      *out = *name;
    } else {
      Wrong(*node, "a name is 1 to 64 of A-Z a-z 0-9 . _ -");
    }
  }
  NameSettings(list + "." + *out, only_given);
}

void TableReader::Done() {
  for (auto&& [key, value] : table_) {
    const std::string_view word = key.str();
    if (std::find(known_.begin(), known_.end(), word) != known_.end()) continue;
    std::string message = "unknown key \"" + std::string(word) + "\" in " + name_;
    const auto nearest = std::min_element(known_.begin(), known_.end(), [&](const auto& a, const auto& b) {
      return EditDistance(a, word) < EditDistance(b, word);
    });
    if (nearest != known_.end()) message += "; the nearest known one is \"" + *nearest + "\"";
    findings_.Add(key.source(), message);
  }
}

}  // namespace nd::config
