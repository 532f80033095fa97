// SPDX-License-Identifier: Apache-2.0
// Requests that an operator or the system makes of this process from outside: to end, to read its
// configuration again.
#pragma once

#include <string_view>
#include <vector>

namespace nd::os {

enum class Request { kTerminate, kInterrupt, kReload };

// The system's name of the request: "SIGTERM".
std::string_view Name(Request request);

// Make one object before the first thread starts. From then on the requests wait for Wait() instead of ending
// the process, and writing to a pipe without a reader is an ordinary error. For one thread.
class Requests {
 public:
  explicit Requests(std::vector<Request> taken);
  // Blocks until one of the `taken` requests arrives.
  Request Wait() const;

 private:
  std::vector<Request> taken_;
};

}  // namespace nd::os
