// SPDX-License-Identifier: Apache-2.0
// Converts records of the broker to rows of the history, and finds the file of the history.
#pragma once

#include <string>

#include "daemon/config.h"
#include "daemon/shell/record_sink.h"
#include "daemon/state/history.h"

namespace nd::service {

// Converts a record. The times of day follow from the age of its events at `now`.
state::HistoryRow ToRow(const core::ConnectionRecord& record, std::string_view transport,
                        const Traffic& traffic, Time now, state::UnixTime wall_now);

// Returns the path of the file; see docs/configuration.md, [history].
std::string HistoryFile(const HistorySettings& settings, const std::string& directory);

class HistorySink final : public RecordSink {
 public:
  HistorySink(const Clock& clock, state::History& history) : clock_(clock), history_(history) {}
  void OnRecord(const core::ConnectionRecord& record, std::string_view transport,
                const Traffic& traffic) override;

 private:
  const Clock& clock_;
  state::History& history_;
};

}  // namespace nd::service
