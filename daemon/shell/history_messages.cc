// SPDX-License-Identifier: Apache-2.0
#include "daemon/shell/history_messages.h"

#include <chrono>

#include "daemon/service/convert.h"
#include "daemon/shell/time_text.h"

namespace nd::service {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kDefaultLimit = 1000, kMostLimit = 1'000'000;

state::UnixTime UnixOf(WallTime time) {
  return std::chrono::duration_cast<microseconds>(time.time_since_epoch()).count();
}

std::string Text(state::UnixTime time) {
  return TimeText(WallTime(std::chrono::duration_cast<WallTime::duration>(microseconds(time))));
}

Status Bad(const std::string& what) {
  return {StatusCode::kInvalidParameter, what};
}

Status ReadTime(const char* name, const std::string& text, std::optional<state::UnixTime>* out) {
  if (text.empty()) return {};
  const std::optional<WallTime> time = ParseTime(text);
  if (!time) {
    return Bad(std::string(name) + ": \"" + text.substr(0, 64) +
               "\" is no time; expected one like 2026-02-03T04:05:06Z");
  }
  *out = UnixOf(*time);
  return {};
}

}  // namespace

void ToProto(const state::HistoryRow& row, pb::HistoryRow* out) {
  out->set_id(row.id);
  out->set_started(Text(row.started));
  out->set_ended(Text(row.ended));
  if (row.established) out->set_established(Text(*row.established));
  ToProto(row.local, out->mutable_local());
  ToProto(row.peer, out->mutable_peer());
  out->set_passive(row.passive);
  pb::Owner* const owner = out->mutable_owner();
  owner->set_pid(row.pid);
  owner->set_uid(row.uid);
  owner->set_command(row.command);
  owner->set_application(row.application);
  owner->set_unit(row.unit);
  owner->set_container(row.container);
  owner->set_cgroup(row.cgroup);
  out->set_adapter(row.adapter);
  out->set_transport(row.transport);
  out->set_outcome(row.outcome);
  out->set_status(row.status);
  out->set_detail(row.detail);
  out->set_reason(row.reason);
  pb::Traffic* const traffic = out->mutable_traffic();
  traffic->set_tx_bytes(row.tx_bytes);
  traffic->set_rx_bytes(row.rx_bytes);
  traffic->set_tx_sends(row.tx_sends);
  traffic->set_rx_sends(row.rx_sends);
  traffic->set_tx_writes(row.tx_writes);
  traffic->set_rx_writes(row.rx_writes);
  traffic->set_tx_reads(row.tx_reads);
  traffic->set_rx_reads(row.rx_reads);
  traffic->set_errors(row.errors);
  traffic->set_stalls(row.stalls);
  traffic->set_wakeups(row.wakeups);
  for (const state::PhaseRow& phase : row.phases) {
    pb::Phase* const to = out->add_phases();
    to->set_name(phase.name);
    to->set_seconds(phase.seconds);
  }
}

Result<state::HistoryFilter> ToFilter(const pb::HistoryRequest& request) {
  state::HistoryFilter filter;
  if (Status bad = ReadTime("since", request.since(), &filter.since); !bad.ok()) return bad;
  if (Status bad = ReadTime("until", request.until(), &filter.until); !bad.ok()) return bad;
  if (filter.since && filter.until && *filter.until < *filter.since) {
    return Bad("until: " + request.until().substr(0, 64) + " is before since, " +
               request.since().substr(0, 64));
  }
  filter.limit = request.limit() == 0 ? kDefaultLimit : request.limit();
  if (filter.limit > kMostLimit) {
    return Bad("limit: " + std::to_string(filter.limit) + " is too many; at most " +
               std::to_string(kMostLimit));
  }
  filter.application = request.application();
  if (!request.peer().empty()) {
    const Result<Address> peer = Address::Parse(request.peer());
    if (!peer.ok()) {
      return Bad("peer: \"" + request.peer().substr(0, 64) +
                 "\" is no address; expected one like 10.0.0.1, 10.0.0.1:7000 or [::1]:7000");
    }
    filter.peer = *peer;
  }
  filter.adapter = request.adapter();
  filter.failed_only = request.failed_only();
  return filter;
}

}  // namespace nd::service
