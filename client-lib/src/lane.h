// SPDX-License-Identifier: Apache-2.0
// The client's end of the fd lane: tokens, hand-overs and counters pages in, acknowledgements out.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "client-lib/src/counters_pages.h"
#include "nd/status.h"
#include "provider/hand_off.h"

namespace nd::client {

// Any thread.
class Lane {
 public:
  explicit Lane(UniqueFd socket);
  ~Lane();
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;

  int fd() const { return socket_.get(); }

  // The first datagram. IO_TIMEOUT; DEVICE_NOT_READY: the broker hung up instead; REMOTE_ERROR: not a token.
  Result<std::string> ReadToken(Time deadline);

  // Takes everything that is there, checks and acknowledges it. Never blocks. SUCCESS: nothing more now;
  // anything else ends the session: CONNECTION_DISCONNECTED: hung up; REMOTE_ERROR, ACCESS_VIOLATION: what
  // came was wrong.
  Status Drain();
  // The hand-over of that id, once. Datagrams precede the completion that names them, so that a missing one
  // (empty) after Drain() never comes.
  std::optional<provider::HandOff> Take(std::uint64_t id);
  const std::shared_ptr<CountersPages>& counters() const { return counters_; }

 private:
  Status Handle(std::span<const std::byte> datagram, std::vector<UniqueFd> fds);
  Status Acknowledge(std::uint64_t id);

  std::mutex mutex_;
  UniqueFd socket_;
  std::shared_ptr<CountersPages> counters_ = std::make_shared<CountersPages>();
  std::map<std::uint64_t, provider::HandOff> waiting_;
};

}  // namespace nd::client
