// SPDX-License-Identifier: Apache-2.0
// Posted receives that this library fills itself, oldest first.
//
// Thread rule: one thread at a time.
#pragma once

#include <infiniband/verbs.h>

#include <cstdint>
#include <span>
#include <vector>

namespace nd::verbs_lib {

class ReceiveRing {
 public:
  ReceiveRing(std::uint32_t depth, std::uint32_t max_sge)
      : max_sge_(max_sge), ids_(depth), counts_(depth), pieces_(static_cast<std::size_t>(depth) * max_sge) {}

  // 0, EINVAL for too many pieces, ENOMEM when the ring is full.
  int Post(const ibv_recv_wr& request);

  bool empty() const { return head_ == tail_; }
  std::size_t size() const { return static_cast<std::size_t>(head_ - tail_); }
  // Of the oldest one; valid until the next Post().
  std::uint64_t id() const { return ids_[Slot(tail_)]; }
  std::span<const ibv_sge> pieces() const {
    return {pieces_.data() + Slot(tail_) * max_sge_, counts_[Slot(tail_)]};
  }
  void Pop() { ++tail_; }

 private:
  std::size_t Slot(std::uint64_t position) const { return static_cast<std::size_t>(position % ids_.size()); }

  const std::uint32_t max_sge_;
  std::uint64_t head_ = 0, tail_ = 0;
  std::vector<std::uint64_t> ids_;
  std::vector<std::uint32_t> counts_;
  std::vector<ibv_sge> pieces_;
};

}  // namespace nd::verbs_lib
