// SPDX-License-Identifier: Apache-2.0
// The violations that a check of invariants finds.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nd::core {

// Takes each violation as parts, which are formatted only when there is one, because that is rare.
class Report {
 public:
  template <typename... Parts>
  void Must(bool condition, const Parts&... parts) {
    if (condition) return;
    (Add(parts), ...);
    text_ += "\n";
  }
  template <typename A, typename B, typename... Parts>
  void Same(const A& is, const B& should_be, const Parts&... parts) {
    Must(static_cast<std::uint64_t>(is) == static_cast<std::uint64_t>(should_be), parts...,
         [&] { return ": " + std::to_string(is) + ", recounted " + std::to_string(should_be); });
  }
  std::string Take() { return std::move(text_); }

 private:
  void Add(std::string_view part) { text_ += part; }
  template <std::invocable F>
  void Add(const F& part) {
    Add(part());
  }

  std::string text_;
};

}  // namespace nd::core
