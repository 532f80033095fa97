// SPDX-License-Identifier: Apache-2.0
// Writes JSON text, one value after the other. One thread.
#pragma once

#include <charconv>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

namespace nd::ops {

class JsonWriter {
 public:
  JsonWriter& Begin(char bracket) {  // '{' or '['
    Comma();
    text_ += bracket;
    fresh_ = true;
    return *this;
  }
  JsonWriter& End(char bracket) {  // '}' or ']'
    text_ += bracket;
    fresh_ = false;
    return *this;
  }
  JsonWriter& Key(std::string_view key) {
    Comma();
    Quote(key);
    text_ += ':';
    fresh_ = true;
    return *this;
  }
  JsonWriter& Value(std::string_view text) {
    Comma();
    Quote(text);
    return *this;
  }
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(bool value) {
    Comma();
    text_ += value ? "true" : "false";
    return *this;
  }
  template <typename T>
  requires std::integral<T> || std::floating_point<T> JsonWriter& Value(T value) {
    Comma();
    if constexpr (std::floating_point<T>) {
      if (!std::isfinite(value)) value = 0;  // JSON has no infinity and no NaN.
    }
    char digits[32];
    text_.append(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
    return *this;
  }
  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    return Key(key).Value(value);
  }
  std::string Take() { return std::move(text_); }

 private:
  void Comma() {
    if (!fresh_) text_ += ',';
    fresh_ = false;
  }
  // Escapes everything but printable ASCII; bytes are taken as Latin-1, so any bytes give valid JSON.
  void Quote(std::string_view text) {
    static constexpr char kHex[] = "0123456789abcdef";
    text_ += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte < 0x20 || byte >= 0x7f || c == '"' || c == '\\' || c == '<') {
        text_ += "\\u00";
        text_ += kHex[byte >> 4];
        text_ += kHex[byte & 15];
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }
  std::string text_;
  bool fresh_ = true;
};

}  // namespace nd::ops
