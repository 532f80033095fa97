// SPDX-License-Identifier: Apache-2.0
// Converts numbers and monotonic times of the core to names and times of day.
#include "daemon/shell/history_sink.h"

#include <chrono>
#include <cstdlib>

#include "base/os/file.h"
#include "daemon/shell/id_text.h"

namespace nd::service {
namespace {

using std::chrono::microseconds;

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
  row.pid = record.owner->pid;
  row.uid = record.owner->uid;
  row.command = record.owner->command;
  row.application = record.owner->application;
  row.unit = record.owner->unit;
  row.container = record.owner->container;
  row.cgroup = record.owner->cgroup;
  row.adapter = record.adapter;
  row.transport = transport;
  row.outcome = core::OutcomeName(record.outcome);
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
  const PhaseSpans spans = SpansOf(record.phases);
  row.phases.reserve(spans.size());
  for (const PhaseSpan& span : spans) {
    row.phases.push_back({core::PhaseName(span.phase), span.seconds});
  }
  return row;
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
  const auto wall = std::chrono::system_clock::now().time_since_epoch();
  history_.Add(ToRow(record, transport, traffic, clock_.Now(),
                     std::chrono::duration_cast<microseconds>(wall).count()));
}

}  // namespace nd::service
