// SPDX-License-Identifier: Apache-2.0
// Requests and answers between a test and a helper process on its OwnDescriptor3(). One thread at a time.
#pragma once

#include <cstddef>
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

// In the helper: serves its end until the test hangs up.
template <typename F>
void Serve(F&& answer);

bool TakeMessage(int fd, std::string* message);
bool PutMessage(int fd, const std::string& message);

// Below both: all of these bytes, in order. False: the other side has ended.
bool ReadAll(int fd, char* to, std::size_t size);
bool WriteAll(int fd, const char* from, std::size_t size);
// The ends of a test and of its helper.
void MakeChannelPair(UniqueFd* ours, UniqueFd* theirs);

template <typename F>
void Serve(F&& answer) {
  std::string message;
  while (TakeMessage(OwnDescriptor3(), &message)) {
    if (!PutMessage(OwnDescriptor3(), answer(message))) return;
  }
}

}  // namespace nd::testing
