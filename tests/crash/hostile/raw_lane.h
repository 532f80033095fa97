// SPDX-License-Identifier: Apache-2.0
// A session on the fd lane without the checks of the client library. A broker that ends the session is no
// error here: every call then returns nothing. One thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "ndbroker/v1/session.pb.h"
#include "tests/testing/raw_lane.h"

namespace nd::hostile {

namespace pb = ::ndbroker::v1;

class RawLane : public testing::RawLane {
 public:
  // Connects; with `hello` it also says Hello and opens the first adapter.
  explicit RawLane(const std::string& directory, bool hello = true,
                   const std::string& application = "raw-client");
  std::uint64_t adapter() const { return adapter_; }
  std::uint64_t last_op() const { return last_op_; }
  pb::Completion Hello(const std::string& token, const std::string& application = "raw-client");
  // Sends with the next operation id. With `wait` false it returns false when the socket is full.
  bool Send(pb::ClientMessage message, bool wait = true);
  // The next message; empty when the broker hung up.
  pb::ServerMessage Receive();
  // The completion of this operation; other messages are dropped.
  pb::Completion Ask(const pb::ClientMessage& message);
  // The handle of a created object; 0: refused.
  std::uint64_t Make(const pb::ClientMessage& message) { return Ask(message).handle(); }
  std::uint64_t QueuePair();
  std::uint64_t Connector();
  // Listens at this port of 127.0.0.`host`.
  std::uint64_t Listener(int host, std::uint32_t port, bool events = false);
  static pb::ClientMessage ConnectTo(std::uint64_t connector, std::uint64_t pair, int host,
                                     std::uint32_t port);
  // The descriptors of the hand-overs and counters pages that were kept since the last call.
  std::vector<UniqueFd> TakeDescriptors();

 private:
  std::uint64_t adapter_ = 0, last_op_ = 0;
};

inline constexpr std::uint32_t kSuccess = 0;
void SetAddress(int host, std::uint32_t port, pb::Address* out);

}  // namespace nd::hostile
