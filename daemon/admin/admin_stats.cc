// SPDX-License-Identifier: Apache-2.0
// GetStats: totals by application, peer and adapter, from the same sums as /metrics.
#include <map>

#include "daemon/admin/admin_service.h"

namespace nd::service {
namespace {

void AddFlow(const ops::Flow& flow, pb::Traffic* out) {
  const auto at = [&](ops::Count count) { return flow[static_cast<std::size_t>(count)]; };
  out->set_tx_bytes(at(ops::Count::kTxBytes));
  out->set_rx_bytes(at(ops::Count::kRxBytes));
  out->set_tx_sends(at(ops::Count::kTxSends));
  out->set_rx_sends(at(ops::Count::kRxSends));
  out->set_tx_writes(at(ops::Count::kTxWrites));
  out->set_rx_writes(at(ops::Count::kRxWrites));
  out->set_tx_reads(at(ops::Count::kTxReads));
  out->set_rx_reads(at(ops::Count::kRxReads));
  out->set_errors(at(ops::Count::kErrors));
  out->set_stalls(at(ops::Count::kStalls));
  out->set_wakeups(at(ops::Count::kWakeups));
}

// Merges rows of the same name: an application of several users, the transports of an adapter.
template <typename Rows, typename NameOf>
std::map<std::string, ops::Row> ByName(const Rows& rows, NameOf name_of) {
  std::map<std::string, ops::Row> out;
  for (const auto& [key, row] : rows) {
    ops::Row& sum = out[name_of(*key)];
    for (std::size_t i = 0; i < ops::kCounts; ++i) ops::AddTo(sum.flow[i], row.flow[i]);
    sum.connections += row.connections;
    sum.connects += row.connects;
    sum.accepts += row.accepts;
    sum.failures += row.failures;
    sum.broken += row.broken;
  }
  return out;
}

void Encode(const std::map<std::string, ops::Row>& rows, pb::StatsReply* reply) {
  for (const auto& [name, row] : rows) {
    pb::StatsRow* out = reply->add_items();
    out->set_name(name);
    AddFlow(row.flow, out->mutable_traffic());
    out->set_connections(row.connections);
    out->set_connects(row.connects);
    out->set_accepts(row.accepts);
    out->set_connect_failures(row.failures);
    out->set_connection_errors(row.broken);
  }
}

}  // namespace

grpc::ServerUnaryReactor* AdminService::GetStats(Context* context, const pb::StatsRequest* request,
                                                 pb::StatsReply* reply) {
  const std::string by = request->by().empty() ? "application" : request->by();
  if (by != "application" && by != "peer" && by != "adapter") {
    return BadRequest(context, "cannot count by \"" + by + "\"; \"by\" must be application, peer or adapter");
  }
  return Snapshot(context, [this, by, reply]() -> std::function<void()> {
    return [by, reply, picture = options_.observatory->Take(false)] {
      reply->set_at_seconds(std::chrono::duration<double>(picture->at.time_since_epoch()).count());
      if (by == "application") {
        Encode(ByName(picture->applications, [](const ops::Who& who) { return who.application; }), reply);
      } else if (by == "peer") {
        Encode(ByName(picture->peers, [](const std::string& peer) { return peer; }), reply);
      } else {
        Encode(ByName(picture->links, [](const ops::LinkKey& link) { return link.adapter; }), reply);
      }
    };
  });
}

}  // namespace nd::service
