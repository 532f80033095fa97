// SPDX-License-Identifier: Apache-2.0
// Two questions to the kernel's RDMA netlink interface: who owns a queue pair number, and which network
// interface carries a port. The message formats are pure functions; Nldev asks the kernel.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "nd/status.h"

namespace nd::provider::verbs {

using Message = std::vector<std::uint8_t>;

Message QpOwnerRequest(std::uint32_t sequence, std::uint32_t device_index, std::uint32_t port,
                       std::uint32_t qp_number);
// All queue pairs of a device: for drivers that do not tell the kernel which port a queue pair is on.
Message QpDumpRequest(std::uint32_t sequence, std::uint32_t device_index);
Message PortRequest(std::uint32_t sequence, std::uint32_t device_index, std::uint32_t port);

// `reply` is one datagram of the kernel, `sequence` that of the request.
// DEVICE_NOT_READY with the errno when it says an error (ENOENT: no such queue pair), INTERNAL_ERROR when it
// cannot be understood. No value: a queue pair of the kernel itself, or of a process that has ended.
Result<std::optional<std::uint32_t>> ParseQpOwner(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                                                  std::uint32_t qp_number);
// One datagram of the answer to QpDumpRequest. `done` when it was the last.
struct QpDumpPart {
  bool found = false;
  std::optional<std::uint32_t> owner;  // As ParseQpOwner.
  bool done = false;
};
Result<QpDumpPart> ParseQpDump(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                               std::uint32_t qp_number);
// The interface index; no value: the port has none.
Result<std::optional<std::uint32_t>> ParsePortNetdev(std::span<const std::uint8_t> reply,
                                                     std::uint32_t sequence);

// The process in the text of /proc/N/status: kernels up to 6.1 at least name the thread that made a queue
// pair.
std::optional<std::uint32_t> ParseProcessOf(std::string_view status);

// Thread rule: one thread. Calls take microseconds; the kernel answers within the system call.
class Nldev {
 public:
  // SUCCESS when process `pid` made queue pair `qp_number`. ACCESS_DENIED with the reason when it did not;
  // DEVICE_NOT_READY when the kernel cannot be asked. A queue pair whose making thread has ended belongs to
  // nobody any more, as far as the kernel tells.
  Status CheckQpOwner(std::uint32_t device_index, std::uint32_t port, std::uint32_t qp_number,
                      std::uint32_t pid);
  std::optional<std::uint32_t> PortNetdev(std::uint32_t device_index, std::uint32_t port);

 private:
  Result<std::optional<std::uint32_t>> QpOwner(std::uint32_t device_index, std::uint32_t port,
                                               std::uint32_t qp_number);
  Result<Message> Ask(const Message& request);
  Result<Message> Receive();

  UniqueFd socket_;
  std::uint32_t sequence_ = 0;
};

}  // namespace nd::provider::verbs
