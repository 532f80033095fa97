// SPDX-License-Identifier: Apache-2.0
#include "verbs-lib/receive_ring.h"

#include <algorithm>
#include <cerrno>

namespace nd::verbs_lib {

int ReceiveRing::Post(const ibv_recv_wr& request) {
  if (request.num_sge < 0 || static_cast<std::uint32_t>(request.num_sge) > max_sge_) return EINVAL;
  if (size() == ids_.size()) return ENOMEM;
  const std::size_t slot = Slot(head_);
  ids_[slot] = request.wr_id;
  counts_[slot] = static_cast<std::uint32_t>(request.num_sge);
  std::copy_n(request.sg_list, request.num_sge,
              pieces_.begin() + static_cast<std::ptrdiff_t>(slot * max_sge_));
  ++head_;
  return 0;
}

}  // namespace nd::verbs_lib
