// SPDX-License-Identifier: Apache-2.0
// The receivers of the broker's records: the history, when it is on, and the statistics.
//
// Made before the loop runs, and outlives it and the shell.
#pragma once

#include <chrono>
#include <memory>

#include "daemon/metrics/admin_tally.h"
#include "daemon/metrics/observatory.h"
#include "daemon/server/services.h"
#include "daemon/service/worker.h"
#include "daemon/shell/history_sink.h"
#include "daemon/state/history.h"

namespace nd::service {

class Records {
 public:
  // The history opens its file on a thread of its own.
  explicit Records(const ServicesHost& host);

  // Waits until the history has its descriptors; a hanging disk makes it wait no longer than `patience`.
  void AwaitOpen(std::chrono::milliseconds patience) {
    if (history_ != nullptr) history_->AwaitOpen(patience);
  }

  AdminTally& admin_tally() { return admin_tally_; }
  Observatory& observatory() { return *observatory_; }
  state::History* history() { return history_.get(); }  // Null: none.
  Worker& history_reader() { return history_reader_; }  // The thread that reads the file, which may block.

 private:
  std::unique_ptr<state::History> OpenHistory(const ServicesHost& host);

  AdminTally admin_tally_;
  std::unique_ptr<state::History> history_;
  std::unique_ptr<HistorySink> history_sink_;
  Worker history_reader_{"nd-history-read"};
  std::unique_ptr<Observatory> observatory_;
};

}  // namespace nd::service
