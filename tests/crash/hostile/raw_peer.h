// SPDX-License-Identifier: Apache-2.0
// A peer host that speaks MPA, DDP and RDMAP itself, so that it can break each rule. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "provider/soft/wire/mpa.h"
#include "provider/soft/wire/rdmap.h"

namespace nd::hostile {

namespace wire = provider::soft::wire;
using Bytes = std::vector<std::byte>;

// A socket that listens at 127.0.0.`host` on the port where brokers look for peers; empty on failure.
UniqueFd ListenOnWire(int host);
// Takes the next connection and reads its request.
UniqueFd TakeOnWire(int listening);
// The same, and accepts it.
UniqueFd AnswerOnWire(int listening);
// A TCP connection from 127.`source` (0: any) to the broker at 127.0.0.`host`; empty on failure.
UniqueFd DialWire(int host, std::uint32_t source = 0);
// A request of the start-up phase for the ND port.
Bytes RequestFrame(std::uint16_t nd_port, const std::string& private_data = {});
// A reply of the start-up phase that accepts.
Bytes ReplyFrame();
bool SendAll(int fd, const Bytes& bytes);
// Reads exactly `size` bytes; false at the end of the stream, or after ten seconds.
bool ReceiveAll(int fd, std::byte* to, std::size_t size);

// An established connection to the victim, and the memory that it exposes.
struct Established {
  UniqueFd socket;
  std::uint32_t token = 0;
  std::uint64_t address = 0;
};
// With `confirm` the ready-to-receive frame follows; without it the first frame is the caller's.
Established Establish(int host, bool confirm = true);
// A whole FPDU.
Bytes Fpdu(const Bytes& ulpdu);
Bytes Fpdu(const wire::Segment& segment, const Bytes& payload);

}  // namespace nd::hostile
