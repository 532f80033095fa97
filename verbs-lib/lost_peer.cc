// SPDX-License-Identifier: Apache-2.0
// The end of a peer by number. There is no connection that the two programs know of, so a program may end its
// side while requests of the other are under way, and expects that nothing happens there for a while.
#include <utility>

#include "verbs-lib/later.h"
#include "verbs-lib/numbers.h"
#include "verbs-lib/queue_pair.h"

namespace nd::verbs_lib {

bool QueuePair::KeepsBack(const ibv_wc& failed) {
  const bool lost = failed.status == IBV_WC_WR_FLUSH_ERR || failed.status == IBV_WC_RETRY_EXC_ERR;
  if (!lost || !by_number || !by_number->named()) return false;
  std::lock_guard lock(kept_mutex_);
  // In the error state nothing would report the completion any more.
  if (state() == IBV_QPS_ERR) return false;
  if (failed.opcode == IBV_WC_RECV) {
    kept_receives_.push_back(failed);
    return true;
  }
  if (kept_sends_.empty()) {
    RunLater(TimeOfRetries(attributes), [number = base().qp_num, loss = loss_] {
      if (const auto self = FindQueuePair(number)) self->FailAfterRetries(loss);
    });
  }
  kept_sends_.push_back(failed);
  kept_sends_.back().status = IBV_WC_WR_FLUSH_ERR;
  return true;
}

void QueuePair::FailAfterRetries(std::uint32_t loss) {
  {
    std::lock_guard lock(kept_mutex_);
    if (loss != loss_ || kept_sends_.empty()) return;
    kept_sends_.front().status = IBV_WC_RETRY_EXC_ERR;
  }
  Flush();
}

void QueuePair::ForgetKeptBack() {
  std::lock_guard reported(report_mutex_);
  std::lock_guard lock(kept_mutex_);
  ++loss_;
  kept_sends_.clear();
  kept_receives_.clear();
}

void QueuePair::ReportKeptBack() {
  std::lock_guard in_order(report_mutex_);
  std::vector<ibv_wc> sends, receives;
  {
    std::lock_guard lock(kept_mutex_);
    ++loss_;
    sends.swap(kept_sends_);
    receives.swap(kept_receives_);
  }
  for (const ibv_wc& one : sends) send_cq->Keep(one);
  for (const ibv_wc& one : receives) receive_cq->Keep(one);
}

}  // namespace nd::verbs_lib
