// SPDX-License-Identifier: Apache-2.0
// A small document: what a command found out, before it is decided how to print it.
//
// Objects keep the order in which their fields were set. Not thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace nd::cli {

class Value {
 public:
  using Array = std::vector<Value>;
  using Object = std::vector<std::pair<std::string, Value>>;

  Value() = default;                                            // null
  Value(bool value) : data_(value) {}                           // NOLINT: implicit by intent
  Value(double value) : data_(value) {}                         // NOLINT: implicit by intent
  Value(std::string value) : data_(std::move(value)) {}         // NOLINT: implicit by intent
  Value(std::string_view value) : data_(std::string(value)) {}  // NOLINT: implicit by intent
  Value(const char* value) : data_(std::string(value)) {}       // NOLINT: implicit by intent
  Value(Array value) : data_(std::move(value)) {}               // NOLINT: implicit by intent
  template <typename T>
  requires(std::is_integral_v<T> && !std::is_same_v<T, bool>) Value(T value) {  // NOLINT: implicit by intent
    if constexpr (std::is_signed_v<T>) {
      data_ = static_cast<std::int64_t>(value);
    } else {
      data_ = static_cast<std::uint64_t>(value);
    }
  }
  // `expected` fields are made room for; any number may be set.
  static Value MakeObject(std::size_t expected = 8) {
    Value value;
    value.data_.emplace<Object>().reserve(expected);
    return value;
  }
  static Value MakeArray() { return Value(Array()); }

  bool is_null() const { return std::holds_alternative<std::monostate>(data_); }
  bool is_array() const { return std::holds_alternative<Array>(data_); }
  bool is_object() const { return std::holds_alternative<Object>(data_); }
  bool is_string() const { return std::holds_alternative<std::string>(data_); }
  bool is_number() const;
  const Array& array() const { return std::get<Array>(data_); }
  Array& array() { return std::get<Array>(data_); }
  const Object& object() const { return std::get<Object>(data_); }

  // Objects only. Set replaces a field of the same name.
  Value& Set(std::string_view key, Value value);
  // "owner.pid"; null when any part is missing. The result lives as long as this value is not changed.
  const Value* Find(std::string_view path) const;

  // Returns the value as one cell of text: numbers in full, true/false, lists joined by commas, nothing for
  // null.
  std::string Text() const;
  // Returns 0 for a value that is not a number.
  double Number() const;
  // Orders numbers by size, everything else by text; null first.
  static int Compare(const Value& a, const Value& b);

  // Strictly valid JSON. `indent` 0 writes one line, otherwise that many spaces per level.
  std::string ToJson(int indent) const;
  // YAML 1.2 block style; strings that another reader could take for something else are quoted.
  std::string ToYaml() const;

 private:
  void AppendJson(std::string* out, int indent, int depth) const;
  void AppendYaml(std::string* out, int depth, bool in_list) const;
  std::string ScalarJson() const;
  std::string ScalarYaml() const;

  std::variant<std::monostate, bool, std::int64_t, std::uint64_t, double, std::string, Array, Object> data_;
};

// With quotes. Bytes that are not UTF-8 become U+FFFD, so that no name of a process can break the output.
std::string QuoteJson(std::string_view text);

}  // namespace nd::cli
