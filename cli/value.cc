// SPDX-License-Identifier: Apache-2.0
// The document behind every output format; the writers are in write_json.cc and write_yaml.cc.
#include "cli/value.h"

#include <charconv>
#include <cmath>

namespace nd::cli {

bool Value::is_number() const {
  return std::holds_alternative<std::int64_t>(data_) || std::holds_alternative<std::uint64_t>(data_) ||
         std::holds_alternative<double>(data_);
}

double Value::Number() const {
  if (const auto* i = std::get_if<std::int64_t>(&data_)) return static_cast<double>(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&data_)) return static_cast<double>(*u);
  const auto* d = std::get_if<double>(&data_);
  return d == nullptr ? 0 : *d;
}

Value& Value::Set(std::string_view key, Value value) {
  Object& object = std::get<Object>(data_);
  for (auto& [name, old] : object) {
    if (name == key) {
      old = std::move(value);
      return *this;
    }
  }
  object.emplace_back(std::string(key), std::move(value));
  return *this;
}

const Value* Value::Find(std::string_view path) const {
  const Value* value = this;
  while (true) {
    if (!value->is_object()) return nullptr;
    // A key may contain dots, so the longest matching key counts.
    std::size_t end = path.size();
    const Value* found = nullptr;
    while (true) {
      for (const auto& [name, child] : value->object()) {
        if (name == path.substr(0, end)) found = &child;
      }
      if (found != nullptr || end == 0) break;
      const std::size_t dot = path.rfind('.', end - 1);
      if (dot == std::string_view::npos) break;
      end = dot;
    }
    if (found == nullptr || end == path.size()) return found;
    value = found;
    path.remove_prefix(end + 1);
  }
}

std::string Value::Text() const {
  if (const auto* text = std::get_if<std::string>(&data_)) return *text;
  if (is_array()) {
    std::string out;
    for (const Value& item : array()) {
      if (!out.empty()) out += ',';
      out += item.Text();
    }
    return out;
  }
  if (is_object()) {
    std::string out;
    for (const auto& [key, item] : object()) {
      if (!out.empty()) out += ',';
      out += key + "=" + item.Text();
    }
    return out;
  }
  return is_null() ? std::string() : ScalarJson();
}

int Value::Compare(const Value& a, const Value& b) {
  if (a.is_null() || b.is_null()) return static_cast<int>(b.is_null()) - static_cast<int>(a.is_null());
  if (a.is_number() && b.is_number()) {
    const auto* ua = std::get_if<std::uint64_t>(&a.data_);
    const auto* ub = std::get_if<std::uint64_t>(&b.data_);
    if (ua != nullptr && ub != nullptr) return *ua < *ub ? -1 : (*ua > *ub ? 1 : 0);
    const double x = a.Number();
    const double y = b.Number();
    return x < y ? -1 : (x > y ? 1 : 0);
  }
  const int order = a.Text().compare(b.Text());
  return order < 0 ? -1 : (order > 0 ? 1 : 0);
}

std::string Value::ScalarJson() const {
  if (is_null()) return "null";
  if (const auto* b = std::get_if<bool>(&data_)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&data_)) return std::to_string(*i);
  if (const auto* u = std::get_if<std::uint64_t>(&data_)) return std::to_string(*u);
  if (const auto* text = std::get_if<std::string>(&data_)) return QuoteJson(*text);
  const double number = std::get<double>(data_);
  if (!std::isfinite(number)) return "null";  // JSON cannot express infinity or NaN.
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof(buffer), number);
  return std::string(buffer, end.ptr);
}

}  // namespace nd::cli
