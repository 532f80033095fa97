// SPDX-License-Identifier: Apache-2.0
// Converts numbers and monotonic times of the core to names and times of day.
#include "daemon/shell/history_sink.h"

#include <chrono>
#include <cstdlib>

#include "base/os/file.h"
#include "daemon/service/convert.h"
#include "daemon/shell/id_text.h"
#include "daemon/shell/time_text.h"

namespace nd::service {
namespace {

using std::chrono::microseconds;

constexpr std::uint32_t kDefaultLimit = 1000, kMostLimit = 1'000'000;

state::UnixTime Unix(WallTime time) {
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
  *out = Unix(*time);
  return {};
}

bool IsDirectory(const std::string& path) {
  os::FileFacts facts;
  return os::Look(path, &facts) == 0 && facts.kind == os::FileFacts::Kind::kDirectory;
}

}  // namespace

state::HistoryRow ToRow(const core::ConnectionRecord& record, std::string_view transport,
                        const Traffic& traffic, Time now, state::UnixTime wall_now) {
  const auto wall = [&](Time then) {
    return wall_now - std::chrono::duration_cast<microseconds>(now - then).count();
  };
  state::HistoryRow row;
  row.id = IdText('c', record.id.value);
  row.started = wall(record.phases.began);
  row.ended = wall(record.ended.value_or(now));
  if (record.established) row.established = wall(*record.established);
  row.local = record.local;
  row.peer = record.peer;
  row.passive = record.passive;
  row.pid = record.owner.pid;
  row.uid = record.owner.uid;
  row.command = record.owner.command;
  row.application = record.owner.application;
  row.unit = record.owner.unit;
  row.container = record.owner.container;
  row.cgroup = record.owner.cgroup;
  row.adapter = record.adapter;
  row.transport = transport;
  row.outcome = OutcomeName(record.outcome);
  row.status = Name(record.why.code());
  row.detail = record.why.detail() == Detail::kNone ? "" : Name(record.why.detail());
  row.reason = record.why.message().empty() && record.reason != DisconnectReason::kUnknown
                   ? Name(record.reason)
                   : std::string_view(record.why.message());
  row.tx_bytes = traffic.tx_bytes;
  row.rx_bytes = traffic.rx_bytes;
  row.tx_sends = traffic.tx_sends;
  row.rx_sends = traffic.rx_sends;
  row.tx_writes = traffic.tx_writes;
  row.rx_writes = traffic.rx_writes;
  row.tx_reads = traffic.tx_reads;
  row.rx_reads = traffic.rx_reads;
  row.errors = traffic.errors;
  row.stalls = traffic.stalls;
  row.wakeups = traffic.wakeups;
  for (const PhaseSpan& span : SpansOf(record.phases)) {
    row.phases.push_back({core::PhaseName(span.phase), span.seconds});
  }
  return row;
}

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

std::string HistoryFile(const HistorySettings& settings, const std::string& directory) {
  if (!settings.file.empty()) return settings.file;
  std::string place = directory;
  const char* const given = std::getenv("STATE_DIRECTORY");
  if (given != nullptr && given[0] == '/') {
    // systemd separates several directories by colons; the first one counts.
    place = given;
    place.resize(std::min(place.find(':'), place.size()));
  } else if (directory == "/run/ndbroker" && IsDirectory("/var/lib/ndbroker")) {
    place = "/var/lib/ndbroker";
  }
  return place + "/history.db";
}

void HistorySink::OnRecord(const core::ConnectionRecord& record, std::string_view transport,
                           const Traffic& traffic) {
  if (record.outcome == core::ConnectionRecord::Outcome::kEstablished) return;
  history_.Add(ToRow(record, transport, traffic, clock_.Now(), Unix(std::chrono::system_clock::now())));
}

}  // namespace nd::service
