// SPDX-License-Identifier: Apache-2.0
// Pages between inaccessible pages, with a copy of their expected contents.
#pragma once

#include <cstring>

#include "tests/fuzz/fuzz.h"

namespace nd::fuzz {

class Arena {
 public:
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kPages = 6;

  Arena();

  std::uint8_t* page(std::size_t i) const { return memory_ + (2 * i + 1) * kPage; }
  // Returns the expected contents of page(i).
  std::uint8_t* expected(std::size_t i) { return expected_ + i * kPage; }
  // Returns the byte of the copy for `address`; null outside the pages.
  std::uint8_t* Expected(std::uint64_t address);
  // Restores the initial contents of both.
  void Reset();
  void Check() const { Require(Same(0, kPages), "no byte changed that should not, and all that should"); }
  // Compares only some pages.
  bool Same(std::size_t first, std::size_t count) const;
  // Makes the current contents the expected ones: the page must not change any more.
  void Accept(std::size_t i) { std::memcpy(expected_ + i * kPage, page(i), kPage); }

 private:
  std::uint8_t* memory_ = nullptr;
  std::uint8_t expected_[kPages * kPage];
  std::uint8_t fresh_[kPages * kPage];
};

}  // namespace nd::fuzz
