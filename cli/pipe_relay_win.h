// SPDX-License-Identifier: Apache-2.0
// Forwards bytes between a pipe of the broker and a socket, in a thread of its own.
#pragma once

#include <cstddef>
#include <future>
#include <thread>
#include <vector>

#include "base/os/wake_event.h"
#include "base/unique_fd.h"

namespace nd::cli {

class PipeRelay {
 public:
  // Both descriptors are closed when one side has ended and the other one has its last bytes.
  PipeRelay(UniqueFd pipe, UniqueFd socket);
  // Forwards nothing more; both are closed when it returns. Once.
  void Stop();
  ~PipeRelay();
  PipeRelay(const PipeRelay&) = delete;
  PipeRelay& operator=(const PipeRelay&) = delete;

 private:
  struct Side {
    UniqueFd fd;
    bool ended = false;             // No more bytes are read from this side.
    std::vector<std::byte> unsent;  // Bytes that wait to be written to this side.
    std::size_t sent = 0;
  };

  void Run();
  // False: the side is broken.
  static bool Read(Side& from, Side& to);
  static bool Flush(Side& to);

  Side pipe_, socket_;
  const os::WakeEvent stop_;
  std::promise<void> closed_;
  std::thread thread_;
};

}  // namespace nd::cli
