// SPDX-License-Identifier: Apache-2.0
// One side of one connection that carries a stream. The initiator posts and the target checks the data; for a
// Read the initiator does both. Small messages say when memory may be used. One thread.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "tests/integrity/layout.h"
#include "tests/integrity/link.h"

namespace nd::integrity {

// The parameters of both sides.
struct Plan {
  std::string kind;
  Stream stream;
  std::uint64_t bytes = 0;
  std::uint32_t most = 0;  // Bytes of a message.
  std::uint32_t sge = 16;
  bool heap = false;
  // Messages in flight. Small messages need many, because their cost is mostly waiting.
  std::uint32_t in_flight() const { return most <= 256 ? 48 : 4; }
  std::uint32_t receives() const { return 2 * in_flight(); }  // The receives that a flow keeps posted.
};

// The posted receives of one queue pair, or of all that share a receive queue.
class ReceivePool {
 public:
  ReceivePool(Adapter& adapter, std::uint64_t seed, std::uint32_t slots, std::uint32_t size,
              std::uint32_t sge, bool heap);
  std::uint32_t slots() const { return static_cast<std::uint32_t>(scatters_.size()); }
  std::uint32_t size() const { return size_; }
  // A receive of `size` bytes, at most size(), in slot `slot`.
  void Post(std::uint32_t slot, std::uint32_t size, QueuePair* pair, SharedReceiveQueue* srq);
  const Scatter& scatter(std::uint32_t slot) const { return scatters_[slot]; }
  static std::uint32_t SlotOf(const Completion& completion);

 private:
  Random random_;
  std::uint32_t size_, sge_;
  std::size_t stride_;
  Memory memory_;
  std::vector<Scatter> scatters_;
};

// The objects that the flows of one side share.
struct Side {
  Adapter& adapter;
  Completions& completions;
  SharedReceiveQueue* srq = nullptr;
  ReceivePool* shared_receives = nullptr;  // With `srq`.
};

class Flow {
 public:
  // `receive_size`: the size of the largest message that arrives.
  Flow(Side side, Plan plan, std::uint32_t receive_size);
  virtual ~Flow() = default;
  Link& link() { return link_; }
  const Plan& plan() const { return plan_; }
  // Called before and after connecting.
  virtual void PostReceives();
  virtual void Start() = 0;
  void On(const Completion& completion);
  virtual bool done() const = 0;
  std::string Describe() const;
  std::uint64_t bytes() const { return bytes_; }
  std::size_t receives_out() const { return receives_out_; }

 protected:
  enum class What : std::uint8_t { kData, kControl, kBind };
  virtual void OnReceive(std::uint32_t slot, std::uint32_t size) = 0;
  virtual void OnDone(What what, std::uint64_t number, const Completion& completion) = 0;
  // The size of the next receive to post. Shared receives always have the largest size.
  virtual std::uint32_t NextReceiveSize() { return receives().size(); }

  struct Control {
    std::uint64_t round = 0, address = 0;
    std::uint32_t token = 0, reserved = 0;
  };
  void SendControl(const Control& control, std::uint32_t invalidate = 0);
  Control ReadControl(std::uint32_t slot, std::uint32_t size) const;
  // Returns the context of the next initiator request. Completions must come in this order.
  void* Posted(RequestType type, What what, std::uint64_t number);
  void Repost(std::uint32_t slot);
  [[noreturn]] void Fault(const std::string& what) const;
  ReceivePool& receives() { return side_.srq != nullptr ? *side_.shared_receives : *own_receives_; }
  const ReceivePool& receives() const { return const_cast<Flow*>(this)->receives(); }

  Side side_;
  Plan plan_;
  Link link_;
  std::uint64_t bytes_ = 0;  // Bytes of the stream so far.
  std::size_t outstanding() const { return posted_.size(); }

 private:
  struct Request {
    std::uint64_t sequence;
    RequestType type;
    What what;
    std::uint64_t number;
  };
  std::unique_ptr<ReceivePool> own_receives_;
  Memory control_;
  std::uint64_t sequence_ = 0, controls_ = 0;
  std::deque<Request> posted_;
  std::deque<std::uint32_t> receive_order_;
  std::size_t receives_out_ = 0;
};

// The flow for `plan.kind`: send, inline, write, write_send, send_invalidate, read.
std::unique_ptr<Flow> MakeFlow(const Side& side, const Plan& plan, bool initiator);
std::unique_ptr<Flow> MakeSendFlow(const Side& side, const Plan& plan, bool initiator);
std::unique_ptr<Flow> MakeAreaFlow(const Side& side, const Plan& plan, bool initiator);
// The size of the largest message that `plan` sends to that side.
std::uint32_t ReceiveSizeOf(const Plan& plan, bool initiator);

}  // namespace nd::integrity
