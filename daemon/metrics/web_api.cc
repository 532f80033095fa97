// SPDX-License-Identifier: Apache-2.0
// Sorts and filters in the broker, so that the page gets no more rows than a user can read.
#include "daemon/metrics/web_api.h"

#include <algorithm>
#include <charconv>

#include "daemon/metrics/json_writer.h"
#include "daemon/shell/id_text.h"

namespace nd::service {
namespace {

using ops::Count;
using ops::JsonWriter;
using Live = ops::Tallies::Live;

void AddFlow(JsonWriter& json, const ops::Flow& flow) {
  json.Field("tx_bytes", At(flow, Count::kTxBytes)).Field("rx_bytes", At(flow, Count::kRxBytes));
  json.Field("tx_messages",
             At(flow, Count::kTxSends) + At(flow, Count::kTxWrites) + At(flow, Count::kTxReads));
  json.Field("rx_messages",
             At(flow, Count::kRxSends) + At(flow, Count::kRxWrites) + At(flow, Count::kRxReads));
  json.Field("errors", At(flow, Count::kErrors)).Field("stalls", At(flow, Count::kStalls));
}

void AddHistogram(JsonWriter& json, const char* name, const ops::Histogram& histogram) {
  json.Key(name).Begin('{').Field("sum", histogram.sum).Key("counts").Begin('[');
  for (const std::uint64_t count : histogram.counts) json.Value(count);
  json.End(']').End('}');
}

void AddWho(JsonWriter& json, const ops::Who& who) {
  json.Field("application", who.application).Field("uid", who.uid);
  json.Field("unit", who.unit).Field("container", who.container);
}

Result<std::size_t> Number(const ops::HttpRequest& request, const char* name, std::size_t absent,
                           std::size_t most) {
  const auto text = request.Query(name);
  if (!text) return absent;
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value > most) {
    return Status(StatusCode::kInvalidParameter,
                  "\"" + std::string(name) + "\" must be a number from 0 to " + std::to_string(most) + ".");
  }
  return value;
}

bool Contains(std::string_view text, std::string_view part) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [&](char a, char b) { return lower(a) == lower(b); }) != text.end();
}

using Order = bool (*)(const Live& a, const Live& b);
Order OrderOf(std::string_view name) {
  if (name == "id") return [](const Live& a, const Live& b) { return a.id < b.id; };
  if (name == "age") return [](const Live& a, const Live& b) { return a.since > b.since; };
  if (name == "tx") {
    return [](const Live& a, const Live& b) {
      return At(a.flow, Count::kTxBytes) < At(b.flow, Count::kTxBytes);
    };
  }
  if (name == "rx") {
    return [](const Live& a, const Live& b) {
      return At(a.flow, Count::kRxBytes) < At(b.flow, Count::kRxBytes);
    };
  }
  if (name == "application") {
    return [](const Live& a, const Live& b) { return a.who->application < b.who->application; };
  }
  if (name == "peer") return [](const Live& a, const Live& b) { return a.peer < b.peer; };
  return nullptr;
}

}  // namespace

std::string StatusJson(const Picture& p, const ProcessFacts& process, double uptime_seconds) {
  JsonWriter json;
  json.Begin('{').Field("version", process.version).Field("uptime_seconds", uptime_seconds);
  const std::string not_ready = p.NotReady();
  json.Field("at_seconds", std::chrono::duration<double>(p.at.time_since_epoch()).count());
  json.Field("ready", not_ready.empty()).Field("not_ready", not_ready).Field("draining", p.draining);
  json.Field("sessions", p.sessions).Field("connections", p.connections);
  json.Field("handshakes", p.handshakes_in_progress).Field("pending_operations", p.pending_operations);
  json.Field("open_fds", process.open_fds).Field("fd_limit", process.fd_limit);
  json.Field("resident_bytes", process.resident_bytes);
  json.Field("connects", p.counters.connect).Field("accepts", p.counters.accept);
  json.Field("connect_failures", p.counters.connect_failure)
      .Field("connection_errors", p.counters.connection_error);
  json.Field("journal_problem", p.journal.journaled ? "" : p.journal.problem);
  json.Field("history_problem", p.history ? p.history->problem : "");

  ops::Flow all{};
  json.Key("adapters").Begin('[');
  for (const core::AdapterRow& row : p.adapters) {
    const std::string& name = row.description.info.name;
    ops::Row sum;
    for (const auto& [link, part] : p.links) {
      if (link->adapter != name) continue;
      for (std::size_t i = 0; i < ops::kCounts; ++i) ops::AddTo(sum.flow[i], part.flow[i]);
      sum.connections += part.connections;
    }
    json.Begin('{').Field("name", name).Field("provider", row.description.info.provider);
    json.Field("mode", row.description.mode).Field("enabled", row.enabled);
    json.Key("addresses").Begin('[');
    for (const Address& address : row.description.info.addresses) json.Value(address.IpToString());
    json.End(']');
    const auto listening = p.listening.find(name);
    json.Field("listeners", listening == p.listening.end() ? 0 : listening->second.listeners);
    json.Field("connections", sum.connections);
    AddFlow(json, sum.flow);
    json.End('}');
  }
  json.End(']');
  for (const auto& [link, part] : p.links) {
    for (std::size_t i = 0; i < ops::kCounts; ++i) ops::AddTo(all[i], part.flow[i]);
  }
  json.Key("traffic").Begin('{');
  AddFlow(json, all);
  json.End('}').Key("bounds").Begin('[');
  for (const double bound : ops::Histogram::kBounds) json.Value(bound);
  json.End(']').Key("handshakes_done").Begin('{');
  AddHistogram(json, "active", p.handshakes[0]);
  AddHistogram(json, "passive", p.handshakes[1]);
  json.End('}').Key("refusals").Begin('[');
  for (const auto& [detail, count] : p.counters.refusals) {
    json.Begin('{').Field("reason", Name(detail)).Field("count", count).End('}');
  }
  json.End(']').Key("failures").Begin('[');
  for (const auto& [key, count] : p.total.failures) {
    json.Begin('{').Field("stage", key.stage).Field("role", key.passive ? "passive" : "active");
    json.Field("status", Name(key.status)).Field("detail", Name(key.detail)).Field("count", count).End('}');
  }
  return json.End(']').End('}').Take();
}

std::string ApplicationsJson(const Picture& p) {
  JsonWriter json;
  json.Begin('{').Field("at_seconds", std::chrono::duration<double>(p.at.time_since_epoch()).count());
  json.Key("items").Begin('[');
  for (const auto& [who, row] : p.applications) {
    json.Begin('{');
    AddWho(json, *who);
    json.Field("sessions", row.sessions).Field("connections", row.connections);
    json.Field("connects", row.connects).Field("accepts", row.accepts);
    json.Field("connect_failures", row.failures).Field("connection_errors", row.broken);
    AddFlow(json, row.flow);
    json.End('}');
  }
  return json.End(']').End('}').Take();
}

Result<std::string> ConnectionsJson(const Picture& p, const ops::HttpRequest& request) {
  const auto offset = Number(request, "offset", 0, 1'000'000'000);
  if (!offset.ok()) return offset.status();
  const auto limit = Number(request, "limit", 50, kMostRows);
  if (!limit.ok()) return limit.status();
  const std::string_view direction = request.Query("order").value_or("desc");
  if (direction != "asc" && direction != "desc") {
    return Status(StatusCode::kInvalidParameter, "\"order\" must be asc or desc.");
  }
  const Order order = OrderOf(request.Query("sort").value_or("tx"));
  if (order == nullptr) {
    return Status(StatusCode::kInvalidParameter, "\"sort\" must be age, tx, rx, application, peer or id.");
  }
  const std::string_view filter = request.Query("filter").value_or("");
  std::vector<const Live*> found;
  for (const Live& live : p.live) {
    if (!filter.empty() && !Contains(live.who->application, filter) && !Contains(live.who->unit, filter) &&
        !Contains(live.link->adapter, filter) && !Contains(live.peer.ToString(), filter) &&
        !Contains(live.local.ToString(), filter) && !Contains(IdText('c', live.id), filter)) {
      continue;
    }
    found.push_back(&live);
  }
  const std::size_t first = std::min(offset.value(), found.size());
  const std::size_t last = std::min(first + limit.value(), found.size());
  const bool down = direction == "desc";
  // Ids break ties, so that pages do not overlap.
  std::partial_sort(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(last), found.end(),
                    [&](const Live* a, const Live* b) {
                      if (order(*a, *b)) return !down;
                      if (order(*b, *a)) return down;
                      return a->id < b->id;
                    });
  JsonWriter json;
  json.Begin('{').Field("at_seconds", std::chrono::duration<double>(p.at.time_since_epoch()).count());
  json.Field("total", p.live.size()).Field("found", found.size()).Field("offset", first);
  json.Key("items").Begin('[');
  for (std::size_t i = first; i < last; ++i) {
    const Live& live = *found[i];
    json.Begin('{').Field("id", IdText('c', live.id)).Field("session", IdText('s', live.session));
    json.Field("local", live.local.ToString()).Field("peer", live.peer.ToString());
    json.Field("passive", live.passive);
    json.Field("age_seconds", std::chrono::duration<double>(p.at - live.since).count());
    json.Field("adapter", live.link->adapter).Field("transport", live.link->transport);
    AddWho(json, *live.who);
    AddFlow(json, live.flow);
    json.End('}');
  }
  return json.End(']').End('}').Take();
}

}  // namespace nd::service
