// SPDX-License-Identifier: Apache-2.0
// A soft device with memory in an arena, made once, and the queue pair of one input.
#pragma once

#include <map>
#include <memory>

#include "base/fd_lane.h"
#include "provider/soft/limits.h"
#include "provider/soft/qp/soft_device.h"
#include "tests/fuzz/arena.h"

namespace nd::fuzz {

// The pages of the arena by the access of peers.
inline constexpr std::size_t kWritablePage = 0, kReadablePage = 1, kPartPage = 2, kLocalPage = 3,
                             kWindowPage = 4, kSourcePage = 5;
inline constexpr std::size_t kPartStart = 512, kPartLength = 1000;
inline constexpr std::size_t kWindowStart = 100, kWindowLength = 500, kOtherWindowStart = 1000;

class QpRig {
 public:
  // `patient`: a Send waits for a receive without limit, otherwise not at all.
  explicit QpRig(bool patient);

  static AdapterInfo Adapter();
  Arena arena;
  std::shared_ptr<provider::Device> device;
  std::shared_ptr<provider::MemoryRegion> regions[Arena::kPages];
  std::shared_ptr<provider::MemoryWindow> other_window;  // A window of another connection.
  std::uint64_t Address(std::size_t page, std::size_t offset = 0) const {
    return reinterpret_cast<std::uintptr_t>(arena.page(page)) + offset;
  }
  Sge At(std::size_t page, std::size_t offset, std::size_t length) const {
    return {arena.page(page) + offset, static_cast<std::uint32_t>(length), regions[page]->local_token()};
  }

 private:
  std::shared_ptr<provider::CompletionQueue> other_cq_;
  std::shared_ptr<provider::QueuePair> other_qp_;
  UniqueFd other_peer_;
};

// One queue pair, with checks: every request completes exactly once, and each queue in the order of posting.
class QpUnderTest {
 public:
  explicit QpUnderTest(QpRig& rig);
  ~QpUnderTest();

  provider::QueuePair& qp() { return *qp_; }
  // Returns a tag for the next request.
  void* NextReceive() { return reinterpret_cast<void*>(next_receive_); }
  void* NextInitiator() { return reinterpret_cast<void*>(next_initiator_); }
  void Posted(const Status& status, bool receive, bool silent);
  // Takes completions; returns their number.
  std::size_t Poll(std::vector<Completion>* receives);
  // Ends the connection: every outstanding request completes now.
  void Finish();
  int closed() const { return *closed_; }

 private:
  void Took(const Completion& completion);

  std::shared_ptr<provider::CompletionQueue> cq_;
  std::shared_ptr<provider::QueuePair> qp_;
  std::shared_ptr<int> closed_ = std::make_shared<int>(0);
  std::uintptr_t next_receive_ = 1, next_initiator_ = 1;
  std::uintptr_t done_receive_ = 1, done_initiator_ = 1;
  std::map<std::uintptr_t, bool> silent_;  // Initiator requests that may end without a completion.
};

}  // namespace nd::fuzz
