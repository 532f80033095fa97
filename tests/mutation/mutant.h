// SPDX-License-Identifier: Apache-2.0
// Included by the copies of sources that run.py makes: the copy has every mutant in it, and the environment
// variable NDBROKER_MUTANT names the one that is switched on. It is read once. Any thread may call.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <initializer_list>
#include <type_traits>

namespace nd::mutation {

inline int Chosen() {
  static const int chosen = [] {
    const char* text = std::getenv("NDBROKER_MUTANT");
    return text == nullptr ? -1 : std::atoi(text);
  }();
  return chosen;
}

constexpr int kMost = 1 << 14;
inline bool reached[kMost];  // Read and cleared by reach.cc after each test.

// Whether mutant `number` is switched on. What the compiler evaluates has no mutant: such a mutant is never
// reached.
constexpr bool Is(int number) {
  if (std::is_constant_evaluated()) return false;
  reached[number] = true;
  return Chosen() == number;
}

constexpr int Unless(int number, int value) {
  return Is(number) ? 0 : value;
}

// A step by one in the other direction: Forth<n>{} ->* x stands for ++x.
template <int number>
struct Forth {
  template <typename T>
  constexpr T& operator->*(T& value) const {
    return Is(number) ? --value : ++value;
  }
};

template <int number>
struct Back {
  template <typename T>
  constexpr T& operator->*(T& value) const {
    return Is(number) ? ++value : --value;
  }
};

template <int number>
struct Extreme {
  template <typename T>
  static constexpr T Min(const T& a, const T& b) {
    return Is(number) ? std::max(a, b) : std::min(a, b);
  }
  template <typename T>
  static constexpr T Max(const T& a, const T& b) {
    return Is(number) ? std::min(a, b) : std::max(a, b);
  }
  template <typename T>
  static constexpr T Min(std::initializer_list<T> list) {
    return Is(number) ? std::max(list) : std::min(list);
  }
  template <typename T>
  static constexpr T Max(std::initializer_list<T> list) {
    return Is(number) ? std::min(list) : std::max(list);
  }
};

}  // namespace nd::mutation
