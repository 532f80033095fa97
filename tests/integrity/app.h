// SPDX-License-Identifier: Apache-2.0
// The application side: one process around the public API that runs one program after the other for the test
// (nd_integrity --app). A program that finds an error reports it and ends its process at once, as a broken
// application would. The other side must handle that.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "nd/nd.h"

namespace nd::integrity {

// The arguments of a program: "key=value" words.
class Words {
 public:
  explicit Words(const std::string& text);
  std::string Text(const std::string& key) const;
  std::uint64_t Number(const std::string& key, std::uint64_t otherwise = 0) const;
  bool Flag(const std::string& key) const { return Number(key) != 0; }
  Address At(const std::string& key) const;

 private:
  std::map<std::string, std::string> values_;
};

// Sends `what` to the test and ends the process.
[[noreturn]] void Die(const std::string& what);
void Must(const Status& status, const char* what);
template <typename T>
T Must(Result<T> result, const char* what) {
  if (!result.ok()) Die(std::string(what) + ": " + result.status().ToString());
  return std::move(result).value();
}

// Programs. Both sides get the same words except `active`, `broker` and `from`. Each returns "ok ..." on
// success.
std::string RunTransfer(const Words& words);
std::string RunOrder(const Words& words);
std::string RunFlips(const Words& words);
// One step of sleep.cc: the objects stay from step to step.
std::string RunSleep(const Words& words);

int RunApp();

}  // namespace nd::integrity
