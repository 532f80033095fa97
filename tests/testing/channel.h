// SPDX-License-Identifier: Apache-2.0
// Requests and answers between a test and a helper process on its descriptor 3. One thread at a time.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "tests/testing/process.h"

namespace nd::testing {

class Channel {
 public:
  // Starts `options.arguments` with our end of a socket pair kept.
  void Start(SpawnOptions options);
  // Returns the answer; empty when the helper has ended.
  std::string Call(const std::string& message);
  Process& process() { return process_; }
  const Process& process() const { return process_; }
  bool started() const { return static_cast<bool>(socket_); }
  void Stop() {
    socket_.reset();
    process_.Kill();
  }

 private:
  UniqueFd socket_;
  Process process_;
};

// In the helper: serves descriptor 3 until the test hangs up.
template <typename F>
void Serve(F&& answer);

bool ReceiveMessage(int fd, std::string* message);
bool SendMessage(int fd, const std::string& message);

template <typename F>
void Serve(F&& answer) {
  std::string message;
  while (ReceiveMessage(3, &message)) {
    if (!SendMessage(3, answer(message))) return;
  }
}

}  // namespace nd::testing
