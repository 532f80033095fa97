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
// Asks for all queue pairs of a device. Needed for drivers that do not record the port of a queue pair.
Message QpDumpRequest(std::uint32_t sequence, std::uint32_t device_index);
Message PortRequest(std::uint32_t sequence, std::uint32_t device_index, std::uint32_t port);

// Returns the owner's pid. `reply` is one datagram from the kernel; `sequence` is that of the request.
// Returns no value for a queue pair of the kernel itself or of a process that has ended, DEVICE_NOT_READY
// with the errno when the kernel reports an error (ENOENT: no such queue pair), and INTERNAL_ERROR when the
// datagram is malformed.
Result<std::optional<std::uint32_t>> ParseQpOwner(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                                                  std::uint32_t qp_number);
// One datagram of the answer to QpDumpRequest. `done`: it was the last one.
struct QpDumpPart {
  bool found = false;
  std::optional<std::uint32_t> owner;  // As ParseQpOwner.
  bool done = false;
};
Result<QpDumpPart> ParseQpDump(std::span<const std::uint8_t> reply, std::uint32_t sequence,
                               std::uint32_t qp_number);
// Returns the interface index, or no value when the port has no interface.
Result<std::optional<std::uint32_t>> ParsePortNetdev(std::span<const std::uint8_t> reply,
                                                     std::uint32_t sequence);

// Returns the process id (Tgid) from the text of /proc/N/status. Kernels, 6.1 at least, report the thread
// that created a queue pair, not the process.
std::optional<std::uint32_t> ParseProcessOf(std::string_view status);

// Thread rule: one thread. Calls take microseconds; the kernel answers within the system call.
class Nldev {
 public:
  // Returns SUCCESS when process `pid` created queue pair `qp_number`, ACCESS_DENIED with the reason when it
  // did not, and DEVICE_NOT_READY when the kernel cannot be asked. When the thread that created a queue pair
  // has ended, the kernel reports no owner.
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
