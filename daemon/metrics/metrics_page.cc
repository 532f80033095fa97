// SPDX-License-Identifier: Apache-2.0
// Names, units and labels. Every value that only grows is a counter with the suffix _total; units are bytes
// and seconds.
#include "daemon/metrics/metrics_page.h"

#include <prometheus/metric_family.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <sstream>

#include "daemon/metrics/http_service.h"
#include "daemon/ops/logging.h"
#include "daemon/shell/broker_shell.h"
#include "daemon/shell/id_text.h"

namespace nd::service {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;
using ops::Count;

double Seconds(Duration duration) {
  return std::chrono::duration<double>(duration).count();
}
std::string Text(std::string_view text) {
  return std::string(text);
}

class Page {
 public:
  // Starts a family. It receives the samples until the next Begin.
  void Begin(MetricType type, const char* name, const char* help) {
    MetricFamily family;
    family.name = std::string("ndbroker_") + name;
    family.help = help;
    family.type = type;
    families_.push_back(std::move(family));
  }
  // Starts a family with a name that all exporters share, without the prefix of ndbroker.
  void BeginCommon(MetricType type, const char* name, const char* help) {
    Begin(type, name, help);
    families_.back().name = name;
  }
  void Add(Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    metric.counter.value = metric.gauge.value = value;
    families_.back().metric.push_back(std::move(metric));
  }
  void Add(Labels labels, std::uint64_t value) { Add(std::move(labels), static_cast<double>(value)); }
  void Add(Labels labels, const ops::Histogram& from, double unit = 1) {
    ClientMetric metric;
    metric.label = std::move(labels);
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < ops::Histogram::kBounds.size(); ++i) {
      sum += from.counts[i];
      metric.histogram.bucket.push_back({sum, ops::Histogram::kBounds[i] * unit});
    }
    metric.histogram.sample_count = from.count();
    metric.histogram.sample_sum = from.sum * unit;
    families_.back().metric.push_back(std::move(metric));
  }
  void Add(const EventLoop::Rounds& from) {
    ClientMetric metric;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i < EventLoop::Rounds::kBoundsUs.size(); ++i) {
      sum += from.counts[i];
      metric.histogram.bucket.push_back({sum, static_cast<double>(EventLoop::Rounds::kBoundsUs[i]) / 1e6});
    }
    metric.histogram.sample_count = sum + from.counts.back();
    metric.histogram.sample_sum = Seconds(from.busy);
    families_.back().metric.push_back(std::move(metric));
  }
  template <typename T>
  void Single(MetricType type, const char* name, const char* help, T value) {
    Begin(type, name, help);
    Add({}, static_cast<double>(value));
  }
  std::string Take() {
    // Removes families without samples.
    std::erase_if(families_, [](const MetricFamily& family) { return family.metric.empty(); });
    std::ostringstream out;
    prometheus::TextSerializer().Serialize(out, families_);
    return std::move(out).str();
  }

 private:
  std::vector<MetricFamily> families_;
};

// A control group may have any bytes as its name, and a name that is not UTF-8 would fail the whole scrape.
Labels LabelsOf(const ops::Who& who) {
  return {{"application", ops::Printable(who.application)},
          {"uid", std::to_string(who.uid)},
          {"unit", ops::Printable(who.unit)},
          {"container", ops::Printable(who.container)}};
}
Labels LabelsOf(const ops::LinkKey& link) {
  return {{"adapter", link.adapter}, {"transport", link.transport.empty() ? "none" : link.transport}};
}
Labels With(Labels labels, const char* name, std::string value) {
  labels.push_back({name, std::move(value)});
  return labels;
}

// Adds the traffic families, which applications and adapters share.
template <typename Rows>
void AddTraffic(Page& page, const std::string& subject, const Rows& rows) {
  const auto family = [&](const char* name, const char* help, Count count) {
    page.Begin(MetricType::Counter, (subject + name).c_str(), help);
    for (const auto& [key, row] : rows) page.Add(LabelsOf(*key), At(row.flow, count));
  };
  family("_transmit_bytes_total", "Bytes sent by queue pairs, without the wire's overhead.", Count::kTxBytes);
  family("_receive_bytes_total", "Bytes received by queue pairs, without the wire's overhead.",
         Count::kRxBytes);
  page.Begin(MetricType::Counter, (subject + "_messages_total").c_str(),
             "Work done by queue pairs; op read and direction receive: read requests served.");
  for (const auto& [key, row] : rows) {
    static constexpr struct {
      const char *direction, *op;
      Count count;
    } kKinds[] = {{"transmit", "send", Count::kTxSends},   {"receive", "send", Count::kRxSends},
                  {"transmit", "write", Count::kTxWrites}, {"receive", "write", Count::kRxWrites},
                  {"transmit", "read", Count::kTxReads},   {"receive", "read", Count::kRxReads}};
    for (const auto& kind : kKinds) {
      page.Add(With(With(LabelsOf(*key), "direction", kind.direction), "op", kind.op),
               At(row.flow, kind.count));
    }
  }
  family("_operation_errors_total", "Work requests that ended in error, flushed ones included.",
         Count::kErrors);
  family("_stalls_total", "Sends without room: ring, window or credits exhausted.", Count::kStalls);
  family("_wakeups_total", "Wakeups of a progress thread for a queue pair.", Count::kWakeups);
}

template <typename Rows>
void AddLife(Page& page, const std::string& subject, const Rows& rows) {
  const auto family = [&](MetricType type, const char* name, const char* help, auto value) {
    page.Begin(type, (subject + name).c_str(), help);
    for (const auto& [key, row] : rows) page.Add(LabelsOf(*key), static_cast<std::uint64_t>(value(row)));
  };
  family(MetricType::Gauge, "_connections", "Established connections.",
         [](const ops::Row& row) { return row.connections; });
  page.Begin(MetricType::Counter, (subject + "_connects_total").c_str(),
             "Established connections by the role of this host.");
  for (const auto& [key, row] : rows) {
    page.Add(With(LabelsOf(*key), "role", "active"), row.connects);
    page.Add(With(LabelsOf(*key), "role", "passive"), row.accepts);
  }
  family(MetricType::Counter, "_connect_failures_total", "Attempts that ended without a connection.",
         [](const ops::Row& row) { return row.failures; });
  family(MetricType::Counter, "_connection_errors_total",
         "Established connections that broke without a goodbye.",
         [](const ops::Row& row) { return row.broken; });
}

void AddProcess(Page& page, const Picture& p, const ProcessFacts& process) {
  page.Begin(MetricType::Gauge, "build_info", "Always 1; the version is in the label.");
  page.Add({{"version", process.version}}, 1.0);
  page.BeginCommon(MetricType::Gauge, "process_start_time_seconds", "Start time of the broker, Unix time.");
  page.Add({}, process.started_unix);
  page.BeginCommon(MetricType::Counter, "process_cpu_seconds_total", "CPU time used.");
  page.Add({}, process.cpu_seconds);
  page.BeginCommon(MetricType::Gauge, "process_open_fds", "Open descriptors.");
  page.Add({}, process.open_fds);
  page.BeginCommon(MetricType::Gauge, "process_max_fds", "Limit of open descriptors.");
  page.Add({}, process.fd_limit);
  page.BeginCommon(MetricType::Gauge, "process_resident_memory_bytes", "Resident memory.");
  page.Add({}, process.resident_bytes);

  page.Single(MetricType::Gauge, "ready", "1 when new work is accepted, as /readyz reports.",
              p.NotReady().empty());
  page.Single(MetricType::Gauge, "draining", "1 after 'ndctl drain'.", p.draining);
  page.Begin(
      MetricType::Histogram, "loop_round_duration_seconds",
      "Duration of the rounds of the loop that owns the broker's tables; each client waits for a round.");
  page.Add(p.rounds);
  page.Begin(MetricType::Gauge, "thread_stuck", "1 while this thread of the broker does not answer.");
  for (const ops::Pulse::Member& thread : process.threads)
    page.Add({{"thread", thread.name}}, thread.stale ? 1.0 : 0.0);
  page.Single(MetricType::Gauge, "descriptors_in_flight",
              "Descriptors in flight to clients: held for them, or sent and not acknowledged.",
              p.descriptors_in_flight);
  page.Single(MetricType::Gauge, "reaper_waiting", "Descriptors that wait to be closed.", p.reaper.waiting);
  page.Single(MetricType::Counter, "reaper_closed_total",
              "Closed descriptors whose close a client could delay.", p.reaper.closed);
  page.Single(MetricType::Counter, "reaper_interrupted_total",
              "Closes that took too long and were interrupted.", p.reaper.interrupted);
  page.Single(MetricType::Gauge, "scrape_loop_seconds", "Time that the loop took for this page.",
              Seconds(p.taking));

  page.Single(MetricType::Gauge, "journal_writing", "1 while leases of ports are kept for the next start.",
              p.journal.journaled);
  page.Single(MetricType::Gauge, "journal_leases", "Leases in the journal.", p.journal.leases);
  page.Single(MetricType::Counter, "journal_write_failures_total", "Writes of the journal that failed.",
              p.journal.failures);
  page.Single(MetricType::Gauge, "journal_recovered_leases", "Leases recovered at the start of the broker.",
              p.journal.recovered);
  if (p.history) {
    page.Single(MetricType::Gauge, "history_writing", "1 while past connections can be recorded.",
                p.history->writing);
    page.Single(MetricType::Counter, "history_rows_written_total", "Rows of the history written.",
                p.history->written);
    page.Single(MetricType::Counter, "history_rows_dropped_total", "Rows of the history lost.",
                p.history->dropped);
    page.Single(MetricType::Counter, "history_audit_refused_total",
                "Changes by administrators that were not made because they could not be recorded.",
                p.history->audit_refused);
    page.Single(MetricType::Gauge, "history_rows_waiting", "Rows of the history not written yet.",
                p.history->waiting);
  }
}

void AddSessions(Page& page, const Picture& p) {
  page.Single(MetricType::Gauge, "sessions", "Clients that are connected.", p.sessions);
  page.Single(MetricType::Counter, "sessions_opened_total", "Clients that sent a valid Hello.",
              p.sessions_opened);
  page.Begin(MetricType::Counter, "sessions_ended_total",
             "Ended sessions by status; SUCCESS and CONNECTION_DISCONNECTED: the client left or died.");
  for (const auto& [code, count] : p.session_ends) page.Add({{"status", Text(Name(code))}}, count);
  page.Begin(MetricType::Gauge, "application_sessions", "Clients that are connected, by application.");
  for (const auto& [who, row] : p.applications) page.Add(LabelsOf(*who), std::uint64_t{row.sessions});

  page.Begin(MetricType::Counter, "api_requests_total", "Completed operations of sessions.");
  for (std::size_t kind = 0; kind < kOperations; ++kind) {
    for (const auto& [answer, count] : p.operations[kind].answers) {
      page.Add({{"operation", OperationName(kind)},
                {"status", Text(Name(answer.first))},
                {"detail", Text(Name(answer.second))}},
               count);
    }
  }
  page.Begin(MetricType::Histogram, "api_request_duration_seconds",
             "Time from the arrival of an operation to its completion; some wait for a peer or an event.");
  for (std::size_t kind = 0; kind < kOperations; ++kind) {
    if (p.operations[kind].duration.count() == 0) continue;
    page.Add({{"operation", OperationName(kind)}}, p.operations[kind].duration);
  }
  page.Single(MetricType::Gauge, "api_pending_operations", "Pending operations.", p.pending_operations);
  page.Single(MetricType::Gauge, "api_oldest_pending_seconds", "Age of the oldest pending operation.",
              p.oldest_pending ? Seconds(*p.oldest_pending) : 0.0);

  page.Begin(MetricType::Gauge, "quota_used", "Usage of each quota by user.");
  for (const auto& [uid, usage] : p.usage) {
    for (std::size_t i = 0; i < core::kResources; ++i) {
      page.Add({{"uid", std::to_string(uid)}, {"resource", core::Name(static_cast<core::Resource>(i))}},
               std::uint64_t{usage[i]});
    }
  }
}

void AddDoors(Page& page, const Picture& p) {
  page.Begin(MetricType::Counter, "admin_requests_total", "Calls of the admin socket by outcome.");
  for (const auto& [call, count] : p.admin_calls) {
    page.Add({{"method", call.first}, {"status", call.second}}, count);
  }
  page.Begin(MetricType::Counter, "clients_refused_total",
             "Connections to a local socket that were closed before they had a session, by reason.");
  for (const auto& [socket, door] : p.doors) {
    if (socket == kPeersDoor) continue;  // Peers send no Hello, so the refusals about Hello do not apply.
    for (std::size_t i = 0; i < ops::kRefusals; ++i) {
      page.Add({{"socket", socket}, {"reason", ops::Name(static_cast<ops::Refusal>(i))}}, door.refused[i]);
    }
  }
  page.Begin(MetricType::Counter, "accept_errors_total",
             "Failed accepts of listening sockets, by class of error.");
  for (const auto& [socket, door] : p.doors) {
    for (std::size_t i = 0; i < ops::kAcceptErrors; ++i) {
      page.Add({{"socket", socket}, {"error", ops::Name(static_cast<ops::AcceptError>(i))}}, door.errors[i]);
    }
  }
}

void AddHandshakes(Page& page, const Picture& p) {
  static constexpr const char* kRoles[] = {"active", "passive"};
  page.Begin(MetricType::Histogram, "handshake_phase_duration_seconds",
             "Duration of each phase of successful handshakes.");
  for (std::size_t role = 0; role < 2; ++role) {
    for (std::size_t i = 0; i < core::kPhases; ++i) {
      if (p.phases[role][i].count() == 0) continue;
      page.Add({{"role", kRoles[role]}, {"phase", core::PhaseName(static_cast<core::Phase>(i))}},
               p.phases[role][i]);
    }
  }
  page.Begin(MetricType::Histogram, "handshake_duration_seconds",
             "Duration of successful handshakes, including the time of applications.");
  for (std::size_t role = 0; role < 2; ++role) page.Add({{"role", kRoles[role]}}, p.handshakes[role]);
  page.Single(MetricType::Gauge, "handshakes_in_progress", "Handshakes in progress on the wire.",
              p.handshakes_in_progress);
  page.Begin(MetricType::Counter, "connect_failures_total",
             "Attempts that ended without a connection, by phase and reason.");
  for (const auto& [key, count] : p.total.failures) {
    page.Add({{"adapter", key.adapter},
              {"role", kRoles[key.passive]},
              {"stage", key.stage},
              {"status", Text(Name(key.status))},
              {"detail", Text(Name(key.detail))}},
             count);
  }
  page.Begin(MetricType::Counter, "refusals_total", "Requests of peers that were refused here, by cause.");
  for (const auto& [detail, count] : p.counters.refusals) page.Add({{"reason", Text(Name(detail))}}, count);
  page.Begin(MetricType::Counter, "connections_ended_total", "Ended connections by outcome.");
  for (const auto& [key, count] : p.total.ends) {
    page.Add({{"adapter", key.adapter}, {"outcome", key.outcome}, {"detail", Text(Name(key.detail))}}, count);
  }
  page.Begin(MetricType::Histogram, "connection_lifetime_seconds", "Duration of ended connections.");
  page.Add({}, p.lifetime, kLifetimeUnit);
}

void AddAdapters(Page& page, const Picture& p) {
  page.Begin(MetricType::Gauge, "adapter_info", "Always 1; the labels describe the adapter.");
  for (const core::AdapterRow& row : p.adapters) {
    page.Add({{"adapter", row.description.info.name},
              {"provider", row.description.info.provider},
              {"mode", row.description.mode}},
             1.0);
  }
  page.Begin(MetricType::Gauge, "adapter_up", "1 when the adapter is enabled and has an address.");
  for (const core::AdapterRow& row : p.adapters) {
    page.Add({{"adapter", row.description.info.name}},
             row.enabled && !row.description.info.addresses.empty() ? 1.0 : 0.0);
  }
  page.Begin(MetricType::Gauge, "adapter_ephemeral_ports_used",
             "Ephemeral ports in use, over all addresses.");
  for (const core::AdapterRow& row : p.adapters) {
    page.Add({{"adapter", row.description.info.name}}, std::uint64_t{row.ephemeral_used});
  }
  const auto listening = [&](const char* name, const char* help, auto value) {
    page.Begin(MetricType::Gauge, name, help);
    for (const core::AdapterRow& row : p.adapters) {
      const auto it = p.listening.find(row.description.info.name);
      page.Add({{"adapter", row.description.info.name}},
               it == p.listening.end() ? std::uint64_t{0} : std::uint64_t{value(it->second)});
    }
  };
  using Listening = Picture::Listening;
  listening("listeners", "Listeners.", [](const Listening& l) { return l.listeners; });
  listening("listener_backlog_used", "Requests that wait for an application.",
            [](const Listening& l) { return l.backlog_used; });
  listening("listener_backlog_limit", "Limit of waiting requests.",
            [](const Listening& l) { return l.backlog_limit; });
}

void AddBusiest(Page& page, const Picture& p, std::uint32_t most) {
  std::vector<const ops::Tallies::Live*> busiest;
  for (const ops::Tallies::Live& live : p.live) busiest.push_back(&live);
  const std::size_t count = std::min<std::size_t>(most, busiest.size());
  const auto moved = [](const ops::Tallies::Live* live) {
    return At(live->flow, Count::kTxBytes) / 2 + At(live->flow, Count::kRxBytes) / 2;
  };
  std::partial_sort(busiest.begin(), busiest.begin() + static_cast<std::ptrdiff_t>(count), busiest.end(),
                    [&](const auto* a, const auto* b) { return moved(a) > moved(b); });
  busiest.resize(count);
  const auto family = [&](const char* name, const char* help, Count what) {
    page.Begin(MetricType::Counter, name, help);
    for (const ops::Tallies::Live* live : busiest) {
      page.Add({{"connection", IdText('c', live->id)},
                {"application", ops::Printable(live->who->application)},
                {"uid", std::to_string(live->who->uid)},
                {"peer", live->peer.ToString()}},
               At(live->flow, what));
    }
  };
  family("connection_transmit_bytes_total", "Bytes sent by one of the busiest connections.", Count::kTxBytes);
  family("connection_receive_bytes_total", "Bytes received by one of the busiest connections.",
         Count::kRxBytes);
}

}  // namespace

std::string MetricsPage(const Picture& picture, const ProcessFacts& process, std::uint32_t per_connection) {
  Page page;
  AddProcess(page, picture, process);
  AddSessions(page, picture);
  AddDoors(page, picture);
  AddHandshakes(page, picture);
  AddAdapters(page, picture);
  AddLife(page, "adapter", picture.links);
  AddTraffic(page, "adapter", picture.links);
  AddLife(page, "application", picture.applications);
  AddTraffic(page, "application", picture.applications);
  page.Single(MetricType::Counter, "implausible_readings_total",
              "Readings of counters pages beyond the limit of hardware; the excess is not counted.",
              picture.total.implausible);
  if (per_connection > 0) AddBusiest(page, picture, per_connection);
  return page.Take();
}

}  // namespace nd::service
