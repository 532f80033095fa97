// SPDX-License-Identifier: Apache-2.0
// From the broker's records to the history's rows, and where the history's file is.
#pragma once

#include <string>

#include "daemon/config.h"
#include "daemon/service/record_sink.h"
#include "daemon/state/history.h"
#include "ndbroker/v1/admin.pb.h"

namespace nd::service {

// Everything of the record but its times of day: those follow from how long ago, by `now`, things happened.
state::HistoryRow ToRow(const core::ConnectionRecord& record, provider::Transport transport,
                        const Traffic& traffic, Time now, state::UnixTime wall_now);
void ToProto(const state::HistoryRow& row, ndbroker::v1::HistoryRow* out);
// INVALID_PARAMETER names the field, what it says and what was expected.
Result<state::HistoryFilter> ToFilter(const ndbroker::v1::HistoryRequest& request);

// docs/configuration.md, [history].
std::string HistoryFile(const HistorySettings& settings, const std::string& directory);

class HistorySink final : public RecordSink {
 public:
  HistorySink(const Clock& clock, state::History& history) : clock_(clock), history_(history) {}
  void OnRecord(const core::ConnectionRecord& record, provider::Transport transport,
                const Traffic& traffic) override;

 private:
  const Clock& clock_;
  state::History& history_;
};

}  // namespace nd::service
