// SPDX-License-Identifier: Apache-2.0
// A broker for the library's unit tests: answers every operation with success unless told otherwise, and can
// die and come back. Any thread.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "base/fd_lane.h"
#include "base/memfd.h"
#include "base/unique_fd.h"
#include "client-lib/src/open.h"
#include "client-lib/src/testing/fake_device.h"

namespace nd::client {

class FakeBroker {
 public:
  // Empty: no answer yet (see Complete).
  using Handler = std::function<std::optional<Reply>(const Op& op)>;

  FakeBroker();
  ~FakeBroker();

  Environment environment();
  Adapter Open(const OpenOptions& options = {});

  // Replaces the answer to one kind of operation.
  void On(OpKind kind, Handler handler);
  void Send(Incoming message);  // To the newest session, in order with the answers.
  void Complete(std::uint64_t op_id, Status status = {});
  // A hand-over for `connector`, on the lane. Returns its id. `record` may be damaged by `damage`.
  std::uint64_t SendHandOff(std::uint64_t connector,
                            const std::function<void(provider::HandOffRecord&)>& damage = {});
  // Answers CreateQueuePair with `slot` of a counters page, sent before. The page as the broker sees it, once
  // the client has it.
  void GiveCounters(std::uint32_t slot);
  const provider::QpCounters* counters(std::uint32_t slot);
  // Ends the session and refuses new ones, until Start().
  void Kill();
  void Start();

  // Blocks until `count` operations of `kind` arrived in all; returns the newest of them.
  Op Await(OpKind kind, std::size_t count = 1);
  std::size_t Count(OpKind kind);
  std::vector<OpKind> Kinds();
  // Blocks until the client acknowledged that id.
  bool Acknowledged(std::uint64_t id);

  FakeDevice& device() { return *device_; }

 private:
  class Stream;
  std::optional<Reply> Answer(const Op& op);
  void Record(const Op& op);

  std::shared_ptr<FakeDevice> device_ = std::make_shared<FakeDevice>();
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<OpKind, Handler> handlers_;
  std::vector<Op> ops_;
  bool running_ = true;
  UniqueFd lane_;
  Mapping counters_;
  Stream* stream_ = nullptr;
  std::uint64_t next_handle_ = 100;
  std::uint64_t next_hand_off_ = 1;
};

}  // namespace nd::client
