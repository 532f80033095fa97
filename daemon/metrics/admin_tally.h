// SPDX-License-Identifier: Apache-2.0
// The calls of the admin socket, counted by method and outcome (count_calls.h).
//
// Any thread. Unknown method names count as "other", so that a client cannot grow the table.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace nd::service {

class AdminTally {
 public:
  // {method, outcome}: "KillConnection", "INVALID_HANDLE". Changes count by their outcome; failed calls by
  // the status of gRPC, such as "INVALID_ARGUMENT".
  using Counts = std::map<std::pair<std::string, std::string>, std::uint64_t>;
  Counts counts() const;
  void Add(std::string_view method, std::string_view status);

 private:
  mutable std::mutex mutex_;
  Counts counts_;
};

}  // namespace nd::service
